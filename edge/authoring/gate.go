package authoring

import (
	"fmt"
	"slices"
	"strings"

	"partneredge/edge/release"
	"partneredge/host"
	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/native"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

// beside returns the gate and the contract's modules as plain Go, with the author's
// module beside them.
func beside(backend *fake.Backend, m host.Manifest, caller httpfront.Caller) (*httpfront.Modules, error) {
	routes, err := releaseRoutes(m)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	table, err := route.New(routes)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	modules := native.Modules(backend)
	gate := pipeline.Pipeline{Routes: table}
	modules.Gate.Caller = httpfront.Func(func(req *abi.Request, resp *abi.Response) { gate.Handle(req, resp, backend) })
	modules.Handlers[m.Name] = httpfront.Module{Caller: caller, Headers: m.Headers}
	return modules, nil
}

// besideContract returns a release of the contract's modules and m, as far as manifests
// go: each of the others has that of a module older than routes, and no code.
func besideContract(m release.Module) []release.Module {
	modules := []release.Module{m}
	for _, name := range taken {
		manifest := fmt.Sprintf(`{"name": %q}`, name)
		if name == route.Gate {
			manifest = fmt.Sprintf(`{"name": %q, "capabilities": [%q]}`, name, abi.RouteTable)
		}
		modules = append(modules, release.Module{Name: name, Wasm: []byte("\x00asm\x01\x00\x00\x00"), Manifest: []byte(manifest)})
	}
	slices.SortFunc(modules, func(a, b release.Module) int { return strings.Compare(a.Name, b.Name) })
	return modules
}

// releaseRoutes returns the routes of a release of the contract's modules and m.
func releaseRoutes(m host.Manifest) (abi.Routes, error) {
	modules := []route.Module{{Name: m.Name, Routes: m.Routes, Capabilities: m.Capabilities}}
	for _, name := range taken {
		if name != route.Gate {
			modules = append(modules, route.Module{Name: name}) // which has the contract's routes
		}
	}
	return route.Of(modules)
}
