package route

import "partneredge/wasm/abi"

// Prefix begins the path of every route.
const Prefix = "/api/v2/public/"

// Contract returns the routes of the partner interface, as the modules of this
// repository declare them. An unsubscription without an id has paths of its own, for
// it is answered with 400 and not with 404.
func Contract() []abi.Route {
	return []abi.Route{
		{Handler: "agents", Method: "GET", Path: Prefix + "agents/me", Scope: "read:agent"},
		{Handler: "coaching", Method: "GET", Path: Prefix + "coaching/insights", Scope: "read:coaching"},
		{Handler: "leads", Method: "POST", Path: Prefix + "leads", Scope: "write:leads"},
		{Handler: "sentinels", Method: "GET", Path: Prefix + "sentinels/firings", Scope: "read:sentinels"},
		{Handler: "webhooks", Method: "POST", Path: Prefix + "webhooks/subscribe", Scope: "write:webhooks"},
		{Handler: "webhooks", Method: "DELETE", Path: Prefix + "webhooks/{id}", Scope: "write:webhooks"},
		{Handler: "webhooks", Method: "DELETE", Path: Prefix + "webhooks", Scope: "write:webhooks"},
		{Handler: "webhooks", Method: "DELETE", Path: Prefix + "webhooks/", Scope: "write:webhooks"},
	}
}

// Declared returns the routes of a module whose manifest has these. A manifest without
// the field (nil, not empty) is older than routes: then a module with the name of one of
// the contract's has the contract's, and any other has none.
func Declared(module string, declared []abi.Route) []abi.Route {
	var routes []abi.Route
	if declared == nil {
		for _, r := range Contract() {
			if r.Handler == module {
				routes = append(routes, r)
			}
		}
		return routes
	}
	for _, r := range declared {
		r.Handler = module
		routes = append(routes, r)
	}
	return routes
}
