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

// ContractTable returns the table of the contract's routes, for a gate in plain Go.
func ContractTable() *Table {
	t, err := New(Contract())
	if err != nil {
		panic(err) // a test makes one
	}
	return t
}
