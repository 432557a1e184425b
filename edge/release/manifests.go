package release

import (
	"encoding/json"
	"slices"
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/route"
)

// Manifests holds what the manifests of a release say that concerns all its modules.
type Manifests struct {
	// Routes are the endpoints of the release, for its gate.
	Routes abi.Routes
	// Fragments describe the endpoints of modules that have an OpenAPI fragment.
	Fragments []Fragment
}

// Fragment is the part of the served OpenAPI document that a module's manifest has.
type Fragment struct {
	Module string
	Routes []abi.Route // of the module
	JSON   json.RawMessage
}

// ReadManifests reads the manifests of modules that are to run together. It refuses those
// that contradict each other, such as by two modules for one route. It does not look
// into fragments.
func ReadManifests(modules []Module) (Manifests, error) {
	var d Manifests
	var declared []route.Module
	for _, m := range modules {
		var manifest struct {
			Routes       []abi.Route      `json:"routes"`
			Capabilities []abi.Capability `json:"capabilities"`
			Headers      []string         `json:"headers"`
			OpenAPI      json.RawMessage  `json:"openapi"`
		}
		if err := json.Unmarshal(m.Manifest, &manifest); err != nil {
			return d, malformed("the manifest of module %s: %v", m.Name, err)
		}
		if sees := func(name string) bool { return strings.EqualFold(name, "authorization") }; m.Name != route.Gate && slices.ContainsFunc(manifest.Headers, sees) {
			return d, malformed("module %s asks for the header authorization: keys are for %s alone", m.Name, route.Gate)
		}
		declared = append(declared, route.Module{Name: m.Name, Routes: manifest.Routes, Capabilities: manifest.Capabilities})
		if len(manifest.OpenAPI) > 0 {
			d.Fragments = append(d.Fragments, Fragment{m.Name, manifest.Routes, manifest.OpenAPI})
		}
	}
	var err error
	if d.Routes, err = route.Of(declared); err != nil {
		return d, malformed("%v", err)
	}
	return d, nil
}
