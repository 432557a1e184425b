// Package admission judges whether modules may run together as a release. `edge module
// check`, `edge release pack` and `push`, and nodes judge by it alike, so what one of them
// takes none of the others refuses. It runs no module: a node and `edge module check` open
// each one as well. Before a release is made, CheckDials finds what nodes take and then
// refuse at each call.
package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"partneredge/edge/node/openapi"
	"partneredge/edge/release"
	"partneredge/host"
	"partneredge/host/prepare"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
	"partneredge/wasm/route"
)

// MaxAnswer is the most bytes of a module's answer that a node takes: as many as the origin
// can send it (wire.MaxPayload).
const MaxAnswer = 4 << 20

// Admitted holds what the manifests of modules that may run together say.
type Admitted struct {
	Routes    abi.Routes               // of all modules, for the gate
	Manifests map[string]host.Manifest // by the module's name
	Docs      http.Handler             // of the API's document, with what the modules describe
}

// Judge returns what the manifests of modules say, or the reason why these modules may
// not run together. Modules are sorted by name.
func Judge(modules []release.Module) (Admitted, error) {
	a, err := JudgeManifests(modules)
	if err != nil {
		return a, err
	}
	for _, m := range modules {
		if err := prepare.CheckCost(m.Wasm); err != nil {
			return a, fmt.Errorf("the code of module %s: %w", m.Name, err)
		}
	}
	return a, nil
}

// JudgeManifests is Judge for whoever opens each of the modules afterwards: opening one
// refuses code that costs too much, which takes a reading of all of it.
func JudgeManifests(modules []release.Module) (a Admitted, err error) {
	if err := release.CheckModules(modules); err != nil {
		return a, err
	}
	a.Manifests = make(map[string]host.Manifest, len(modules))
	for _, m := range modules {
		if a.Manifests[m.Name], err = readManifest(m.Manifest); err != nil {
			return a, fmt.Errorf("the manifest of module %s: %w", m.Name, err)
		}
	}
	if _, there := a.Manifests[route.Gate]; !there {
		return a, fmt.Errorf("there is no module named %s", route.Gate)
	}
	if len(modules) == 1 {
		return a, fmt.Errorf("there is no module but %s", route.Gate)
	}
	together, err := release.ReadManifests(modules)
	if err != nil {
		return a, err
	}
	a.Routes = together.Routes
	document, err := openapi.Join(together.Fragments)
	if err == nil {
		a.Docs, err = openapi.NewHandler(document)
	}
	return a, err
}

// CheckDials returns an error where an allow_dial names an address that check refuses, as
// nodes do when a module connects. Names are not looked up.
func (a Admitted) CheckDials(check func(netip.AddrPort) error) error {
	for _, name := range slices.Sorted(maps.Keys(a.Manifests)) {
		for _, entry := range a.Manifests[name].AllowDial {
			addr, err := netip.ParseAddrPort(entry)
			if err != nil {
				continue // a name
			}
			if err := check(addr); err != nil {
				return fmt.Errorf("the manifest of module %s: allow_dial has %s, which nodes refuse to connect to: %w", name, entry, err)
			}
		}
	}
	return nil
}

// readManifest parses the manifest of a module. A field that is not known is refused: a
// grant that is misspelt is no grant.
func readManifest(text []byte) (m host.Manifest, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, err
	}
	for _, name := range m.Headers {
		if name == "" || name != strings.ToLower(name) {
			return m, fmt.Errorf("the header %q is not in lower case", name)
		}
	}
	for _, c := range m.Capabilities {
		if !c.Known() {
			return m, fmt.Errorf("there is no capability %q", c)
		}
	}
	for i := range m.Warmup {
		if size := m.Warmup[i].Size(); size > abi.MaxRequest { // no partner's request is as long
			return m, fmt.Errorf("request %d of warmup takes %d bytes of the module's input buffer, more than %d", i+1, size, abi.MaxRequest)
		}
	}
	return m, wasi.CheckAllow(m.AllowDial)
}
