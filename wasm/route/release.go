package route

import (
	"errors"
	"slices"

	"partneredge/wasm/abi"
)

// Gate is the name of the module that every request passes first, and that has no
// routes of its own.
const Gate = "gate"

// Module holds the part of a module's manifest that concerns routes.
type Module struct {
	Name         string
	Routes       []abi.Route // nil: the manifest has no such field
	Capabilities []abi.Capability
}

// Of returns the routes of a release's modules, or why they cannot be: Check refuses
// them, the gate is not granted them, or another module is.
func Of(modules []Module) (abi.Routes, error) {
	var routes abi.Routes
	declares := ""
	for _, m := range modules {
		if m.Name == Gate && len(m.Routes) > 0 {
			return nil, errors.New("module " + Gate + " declares routes, and no request would reach them")
		}
		if i := slices.IndexFunc(m.Capabilities, ofGate); i >= 0 && m.Name != Gate {
			return nil, errors.New("module " + m.Name + " is granted the capability " + string(m.Capabilities[i]) + ", which is " + Gate + "'s alone")
		}
		if m.Routes != nil && m.Name != Gate {
			declares = m.Name
		}
		routes = append(routes, m.declared()...)
	}
	for _, m := range modules {
		if m.Name == Gate && declares != "" && !slices.Contains(m.Capabilities, abi.RouteTable) {
			return nil, errors.New("module " + declares + " declares routes, but " + Gate + " is not granted the capability " +
				string(abi.RouteTable) + " and would not follow them")
		}
	}
	return routes, Check(routes)
}

// ofGate reports whether a capability is the gate's alone: whoever has one of these can
// judge keys, and spend what is another's.
func ofGate(c abi.Capability) bool {
	return c == abi.Keys || c == abi.Buckets || c == abi.Lockouts || c == abi.RouteTable
}

// declared returns the routes of a module. A manifest without the field is older than
// routes: then a module with the name of one of the contract's has the contract's, and
// any other has none.
func (m Module) declared() []abi.Route {
	var routes []abi.Route
	if m.Routes == nil {
		for _, r := range Contract() {
			if r.Handler == m.Name {
				routes = append(routes, r)
			}
		}
		return routes
	}
	for _, r := range m.Routes {
		r.Handler = m.Name
		routes = append(routes, r)
	}
	return routes
}
