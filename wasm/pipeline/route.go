package pipeline

import (
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/percent"
)

// Prefix is the start of every endpoint's path.
const Prefix = "/api/v2/public/"

// Names of the handler modules.
const (
	Agents    = "agents"
	Coaching  = "coaching"
	Sentinels = "sentinels"
	Webhooks  = "webhooks"
	Leads     = "leads"
)

type route struct {
	method  string
	handler string
	scope   abi.Scopes
	param   string
}

// find returns the route of an escaped path. Each path has one method.
func find(path string) (to route, found bool) {
	rest, ok := strings.CutPrefix(path, Prefix)
	if !ok {
		return route{}, false
	}
	switch rest {
	case "agents/me":
		return route{"GET", Agents, abi.ReadAgent, ""}, true
	case "coaching/insights":
		return route{"GET", Coaching, abi.ReadCoaching, ""}, true
	case "sentinels/firings":
		return route{"GET", Sentinels, abi.ReadSentinels, ""}, true
	case "leads":
		return route{"POST", Leads, abi.WriteLeads, ""}, true
	case "webhooks/subscribe":
		return route{"POST", Webhooks, abi.WriteWebhooks, ""}, true
	case "webhooks":
		return route{"DELETE", Webhooks, abi.WriteWebhooks, ""}, true
	}
	segment, ok := strings.CutPrefix(rest, "webhooks/")
	id, valid := percent.Decode(segment)
	if !ok || !valid || strings.IndexByte(segment, '/') >= 0 {
		return route{}, false
	}
	return route{"DELETE", Webhooks, abi.WriteWebhooks, id}, true
}
