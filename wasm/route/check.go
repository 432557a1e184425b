package route

import (
	"errors"
	"strconv"

	"partneredge/wasm/abi"
)

// reserved are paths that a node answers itself, without a key.
var reserved = pattern{segments: []string{"openapi.json"}}

// Check returns an error, with the reason, unless the routes may be those of one
// release. It refuses:
//
//   - a path outside Prefix or one that is malformed, another method than GET, POST,
//     PUT, PATCH and DELETE, a scope that no key can have;
//   - two routes of one method and path;
//   - two paths that match the same request, of which neither has a literal wherever
//     the other has a parameter;
//   - a path that would answer requests of the contract's, unless it is one of the
//     contract's routes as it stands.
func Check(routes []abi.Route) error {
	if len(routes) > MaxRoutes {
		return errors.New(strconv.Itoa(len(routes)) + " routes, more than " + strconv.Itoa(MaxRoutes))
	}
	patterns := make([]pattern, len(routes))
	for i, r := range routes {
		p, err := checkOne(r)
		if err != nil {
			return refuse(r, err)
		}
		patterns[i] = p
	}
	for i, r := range routes {
		if err := checkContract(r, patterns[i]); err != nil {
			return refuse(r, err)
		}
		for j, other := range routes[:i] {
			switch compare(patterns[i], patterns[j]) {
			case equal:
				if r.Method == other.Method {
					return refuse(r, taken(other.Handler))
				}
			case ambiguous:
				return refuse(r, errors.New("some paths match "+other.Path+" of module "+other.Handler+" as well, and neither is the narrower"))
			}
		}
	}
	return nil
}

func checkOne(r abi.Route) (pattern, error) {
	p, err := parse(r.Path)
	if err != nil {
		return p, err
	}
	switch r.Method {
	case "GET", "POST", "PUT", "PATCH", "DELETE":
	default:
		return p, errors.New("the method is none of GET, POST, PUT, PATCH and DELETE")
	}
	if abi.ScopeOf(r.Scope) == 0 && !abi.IsOwnScope(r.Scope) {
		return p, errors.New("no key can have the scope " + strconv.Quote(r.Scope) +
			": it is neither the contract's nor x: and 1 to 40 of a to z, 0 to 9 and hyphens")
	}
	if compare(p, reserved) != disjoint && compare(p, reserved) != wider {
		return p, errors.New("the node itself answers this path")
	}
	return p, nil
}

// checkContract refuses a route that changes how a request of the contract's is
// answered.
func checkContract(r abi.Route, p pattern) error {
	for _, c := range Contract() {
		if r.Method == c.Method && r.Path == c.Path {
			if r.Scope != c.Scope {
				return errors.New("the contract requires the scope " + c.Scope)
			}
			return nil
		}
	}
	for _, c := range Contract() {
		theirs, err := parse(c.Path)
		if err != nil {
			return err
		}
		if how := compare(p, theirs); how == equal || how == narrower {
			return errors.New("it would shadow " + c.Method + " " + c.Path + " of the contract")
		}
	}
	return nil
}

// refuse says which route an error is about.
func refuse(r abi.Route, why error) error {
	return errors.New("route " + quoted(r.Method, 20) + " " + quoted(r.Path, 300) + " of module " + r.Handler + ": " + why.Error())
}

// quoted returns the first bytes of a text, in quotes.
func quoted(text string, most int) string { return strconv.Quote(text[:min(len(text), most)]) }

func taken(module string) error { return errors.New("it is a route of module " + module + " already") }
