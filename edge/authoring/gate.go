package authoring

import (
	"fmt"

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
