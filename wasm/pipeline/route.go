package pipeline

import "partneredge/wasm/abi"

// Prefix of all endpoints.
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

// find returns the route of an escaped path. A path has one method.
func find(path string) (to route, found bool) {
	if len(path) < len(Prefix) || path[:len(Prefix)] != Prefix {
		return route{}, false
	}
	switch rest := path[len(Prefix):]; rest {
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
	default:
		const webhooks = "webhooks/"
		if len(rest) < len(webhooks) || rest[:len(webhooks)] != webhooks {
			return route{}, false
		}
		id, ok := segment(rest[len(webhooks):])
		if !ok {
			return route{}, false
		}
		return route{"DELETE", Webhooks, abi.WriteWebhooks, id}, true
	}
}

// segment undoes the escapes of one path segment; more than one is no segment.
func segment(s string) (string, bool) {
	plain := true
	for i := range len(s) {
		switch s[i] {
		case '/':
			return "", false
		case '%':
			plain = false
		}
	}
	if plain {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := nibble(s[i+1]), nibble(s[i+2])
		if high > 15 || low > 15 {
			return "", false
		}
		out = append(out, high<<4|low)
		i += 2
	}
	return string(out), true
}

// nibble is the value of a hexadecimal digit, 16 when c is none.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}
