package route

import (
	"slices"
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/percent"
)

// Table finds the route of a request. Its memory is not changed after New, and any
// number of goroutines may use it.
type Table struct{ root node }

// node stands for the paths that have the same segments up to it.
type node struct {
	literals []literal        // that may follow, as long as they are few
	many     map[string]*node // literals, where they are more
	param    *node
	here     *Endpoint // of the path that ends here
	slash    *Endpoint // of the same path with a slash after it
}

// literal is a segment and its node.
type literal struct {
	segment string
	node    *node
}

// few bounds the segments that are compared one by one, which a guest does faster than it
// looks one up in a map.
const few = 8

// literal returns the node of a segment, nil if there is none.
func (n *node) literal(segment string) *node {
	if n.many != nil {
		return n.many[segment]
	}
	for i := range n.literals {
		if n.literals[i].segment == segment {
			return n.literals[i].node
		}
	}
	return nil
}

// Endpoint describes where a path leads: one route for each method that it answers.
type Endpoint struct {
	// Allow lists the methods as the header of that name does.
	Allow  string
	routes []Found
}

// Found is a route, with what a gate needs to know of its scope.
type Found struct {
	abi.Route
	bit    abi.Scopes // of a scope of the contract, 0 for an own one
	params []string
}

// New makes a table of routes that were checked (Check). The error names the first
// route that cannot be part of one.
func New(routes []abi.Route) (*Table, error) {
	t := &Table{}
	for _, r := range routes {
		p, err := parse(r.Path)
		if err != nil {
			return nil, refuse(r, err)
		}
		if err := t.add(r, p); err != nil {
			return nil, refuse(r, err)
		}
	}
	return t, nil
}

func (t *Table) add(r abi.Route, p pattern) error {
	n := &t.root
	for _, segment := range p.segments {
		n = n.child(segment)
	}
	at := &n.here
	if p.slash {
		at = &n.slash
	}
	if *at == nil {
		*at = &Endpoint{}
	}
	e := *at
	for _, other := range e.routes {
		if other.Method == r.Method {
			return taken(other.Handler)
		}
	}
	e.routes = append(e.routes, Found{Route: r, bit: abi.ScopeOf(r.Scope), params: p.params})
	slices.SortFunc(e.routes, func(a, b Found) int { return strings.Compare(a.Method, b.Method) })
	methods := make([]string, len(e.routes))
	for i := range e.routes {
		methods[i] = e.routes[i].Method
	}
	e.Allow = strings.Join(methods, ", ")
	return nil
}

// child returns the node of one more segment, and makes it if there is none.
func (n *node) child(segment string) *node {
	if segment == "" {
		if n.param == nil {
			n.param = &node{}
		}
		return n.param
	}
	child := n.literal(segment)
	if child == nil {
		child = &node{}
		n.add(literal{segment, child})
	}
	return child
}

// add adds a literal that is not there yet.
func (n *node) add(l literal) {
	if n.many == nil && len(n.literals) < few {
		n.literals = append(n.literals, l)
		return
	}
	if n.many == nil {
		n.many = make(map[string]*node)
		for _, earlier := range n.literals {
			n.many[earlier.segment] = earlier.node
		}
		n.literals = nil
	}
	n.many[l.segment] = l.node
}

// Find returns the endpoint of a path as it was sent, percent-encoded, nil if there is
// none. Of several patterns that match, the one counts that has a literal where the
// others have a parameter. The values of the path's parameters are appended to params,
// whose names the caller gets from Endpoint.Method.
func (t *Table) Find(path string, params []abi.Param) (*Endpoint, []abi.Param) {
	rest, ok := strings.CutPrefix(path, Prefix)
	if !ok {
		return nil, params
	}
	return t.root.find(rest, params)
}

// find looks below n. Each node is visited once at most, so a path takes no more steps
// than the table has nodes.
func (n *node) find(path string, params []abi.Param) (*Endpoint, []abi.Param) {
	segment, rest, more := strings.Cut(path, "/")
	if child := n.literal(segment); child != nil {
		if e, found := child.end(rest, more, params); e != nil {
			return e, found
		}
	}
	if n.param == nil || segment == "" {
		return nil, params
	}
	value, ok := percent.Decode(segment)
	if !ok {
		return nil, params
	}
	if e, found := n.param.end(rest, more, append(params, abi.Param{Value: value})); e != nil {
		return e, found
	}
	return nil, params
}

// end looks for the rest of a path, of which n stands for the beginning; more is false
// if not even a slash follows.
func (n *node) end(rest string, more bool, params []abi.Param) (*Endpoint, []abi.Param) {
	switch {
	case !more:
		return n.here, params
	case rest == "":
		return n.slash, params
	}
	return n.find(rest, params)
}

// Pattern returns the path of the route that path is of, as the route writes it, or ""
// where there is none. It uses the memory of params, and returns it.
func (t *Table) Pattern(path string, params []abi.Param) (string, []abi.Param) {
	e, params := t.Find(path, params)
	if e == nil {
		return "", params
	}
	return e.routes[0].Path, params
}

// Method returns the route of a method, nil if the endpoint does not answer it, and
// gives params, the values that Find appended, their names.
func (e *Endpoint) Method(method string, params []abi.Param) *Found {
	for i := range e.routes {
		r := &e.routes[i]
		if r.Method != method {
			continue
		}
		for j, name := range r.params {
			params[j].Name = name
		}
		return r
	}
	return nil
}

// Allows reports whether a key with these scopes may use the route.
func (f *Found) Allows(scopes abi.Scopes, own string) bool {
	if f.bit != 0 {
		return scopes&f.bit != 0
	}
	return abi.HasOwn(own, f.Scope)
}
