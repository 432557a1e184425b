package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"partneredge/edge/release"
	"partneredge/wasm/abi"
)

// componentName is the form of a component's name, by OpenAPI.
var componentName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)

// Join returns the document of the partner interface with the fragments of modules. A
// fragment is an object with paths and components. It may describe the routes of its
// module and nothing else, and refer to its own components and to those that are there.
// Modules that answer different methods of a path describe one each.
// The security of each operation is set by its route's scope. The error names the module
// and what is wrong.
func Join(fragments []release.Fragment) ([]byte, error) {
	if len(fragments) == 0 {
		return Document(), nil
	}
	if err := checkBounds(fragments); err != nil {
		return nil, err
	}
	j, err := newJoin()
	if err != nil {
		return nil, fmt.Errorf("join API documents: %w", err)
	}
	for _, f := range fragments {
		if err := j.add(f); err != nil {
			return nil, fmt.Errorf("openapi of module %s: %w", f.Module, err)
		}
	}
	for _, f := range fragments { // once all components are there
		if err := j.checkReferences(f.JSON); err != nil {
			return nil, fmt.Errorf("openapi of module %s: %w", f.Module, err)
		}
	}
	return j.document()
}

// join is a document under way.
type join struct {
	top, paths rawObject
	added      []pathItem
	components rawObject
	kinds      map[string]*rawObject // of components, such as schemas
	operations map[string]bool       // the operationIds in use
}

func newJoin() (*join, error) {
	j := &join{kinds: map[string]*rawObject{}, operations: map[string]bool{}}
	var err error
	if j.top, err = parseRaw(document); err != nil {
		return nil, err
	}
	if j.paths, err = parseRaw(j.top.get("paths")); err != nil {
		return nil, err
	}
	if j.components, err = parseRaw(j.top.get("components")); err != nil {
		return nil, err
	}
	for _, kind := range j.components {
		members, err := parseRaw(kind.value)
		if err != nil {
			return nil, err
		}
		j.kinds[kind.name] = &members
	}
	for _, id := range regexp.MustCompile(`"operationId":\s*"([^"]*)"`).FindAllSubmatch(document, -1) {
		j.operations[string(id[1])] = true
	}
	return j, nil
}

func (j *join) add(f release.Fragment) error {
	fragment, err := parseRaw(f.JSON)
	if err != nil {
		return err
	}
	for _, m := range fragment {
		members, err := parseRaw(m.value)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		switch m.name {
		case "paths":
			err = j.addPaths(members, f.Routes)
		case "components":
			err = j.addComponents(members)
		default:
			err = fmt.Errorf("it has the member %q; a fragment has paths and components", m.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pathItem is the description of a path that modules answer.
type pathItem struct {
	path    string
	members rawObject
}

func (j *join) addPaths(paths rawObject, routes []abi.Route) error {
	for _, path := range paths {
		if j.paths.get(path.name) != nil {
			return fmt.Errorf("%s is described already", path.name)
		}
		item, err := parseRaw(path.value)
		if err != nil {
			return fmt.Errorf("%s: %w", path.name, err)
		}
		for i, m := range item {
			switch m.name {
			case "get", "post", "put", "patch", "delete":
				if item[i].value, err = j.operation(path.name, m, routes); err != nil {
					return err
				}
			case "parameters", "summary", "description":
			default:
				return fmt.Errorf("%s has the member %q; it may have methods, parameters, summary and description", path.name, m.name)
			}
		}
		at := slices.IndexFunc(j.added, func(p pathItem) bool { return p.path == path.name })
		if at < 0 {
			j.added = append(j.added, pathItem{path.name, item})
			continue
		}
		if err := j.added[at].join(item); err != nil {
			return fmt.Errorf("%s: %w", path.name, err)
		}
	}
	return nil
}

// join adds the methods of another module to a path. What one of the two says of all its
// methods goes to each of them.
func (p *pathItem) join(item rawObject) (err error) {
	if p.members, err = p.members.methodsAlone(); err != nil {
		return err
	}
	if item, err = item.methodsAlone(); err != nil {
		return err
	}
	for _, m := range item {
		if p.members.get(m.name) != nil {
			return fmt.Errorf("%s is described already", strings.ToUpper(m.name))
		}
		p.members = append(p.members, m)
	}
	return nil
}

// methodsAlone returns the methods of a path's description, each with the parameters
// that the path has for all of them.
func (o rawObject) methodsAlone() (methods rawObject, err error) {
	var shared []json.RawMessage
	if text := o.get("parameters"); text != nil {
		if err := json.Unmarshal(text, &shared); err != nil {
			return nil, errors.New("its parameters are no list")
		}
	}
	for _, m := range o {
		if m.name == "parameters" || m.name == "summary" || m.name == "description" {
			continue
		}
		if len(shared) > 0 {
			if m.value, err = withParameters(m.value, shared); err != nil {
				return nil, fmt.Errorf("%s: %w", m.name, err)
			}
		}
		methods = append(methods, m)
	}
	return methods, nil
}

// withParameters returns an operation with more parameters, but for those that it has
// itself.
func withParameters(operation []byte, shared []json.RawMessage) ([]byte, error) {
	o, err := parseRaw(operation)
	if err != nil {
		return nil, err
	}
	var own []json.RawMessage
	if text := o.get("parameters"); text != nil {
		if err := json.Unmarshal(text, &own); err != nil {
			return nil, errors.New("its parameters are no list")
		}
	}
	type identity struct{ Name, In, Ref string }
	of := func(parameter []byte) (id identity) {
		var p struct {
			Name string `json:"name"`
			In   string `json:"in"`
			Ref  string `json:"$ref"`
		}
		_ = json.Unmarshal(parameter, &p) // what is no parameter has no name
		return identity{p.Name, p.In, p.Ref}
	}
	all := slices.Clone(own)
	for _, p := range shared {
		if !slices.ContainsFunc(own, func(have json.RawMessage) bool { return of(have) == of(p) }) {
			all = append(all, p)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	o = slices.DeleteFunc(o, func(m rawMember) bool { return m.name == "parameters" })
	return append(o, rawMember{"parameters", text}).indented(6), nil
}

// operation returns an operation with the security of its route.
func (j *join) operation(path string, m rawMember, routes []abi.Route) (json.RawMessage, error) {
	method := strings.ToUpper(m.name)
	at := slices.IndexFunc(routes, func(r abi.Route) bool { return r.Method == method && r.Path == path })
	if at < 0 {
		return nil, fmt.Errorf("it describes %s %s, which is none of the module's routes", method, path)
	}
	operation, err := parseRaw(m.value)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	responses, err := parseRaw(operation.get("responses"))
	if err != nil || len(responses) == 0 {
		return nil, fmt.Errorf("%s %s has no responses", method, path)
	}
	if text := operation.get("operationId"); text != nil {
		var id string
		if err := json.Unmarshal(text, &id); err != nil || id == "" {
			return nil, fmt.Errorf("%s %s has an operationId that is no text", method, path)
		}
		if j.operations[id] {
			return nil, fmt.Errorf("%s %s has the operationId %q, which is in use", method, path, id)
		}
		j.operations[id] = true
	}
	operation = slices.DeleteFunc(operation, func(m rawMember) bool { return m.name == "security" })
	scope, err := json.Marshal([]map[string][]string{{"bearer": {routes[at].Scope}}})
	if err != nil {
		return nil, err
	}
	return append(operation, rawMember{"security", scope}).indented(6), nil
}

func (j *join) addComponents(kinds rawObject) error {
	for _, kind := range kinds {
		switch kind.name {
		case "schemas", "responses", "parameters", "examples", "requestBodies", "headers":
		default:
			return fmt.Errorf("components of the kind %q cannot be joined", kind.name)
		}
		members, err := parseRaw(kind.value)
		if err != nil {
			return fmt.Errorf("components %s: %w", kind.name, err)
		}
		into := j.kinds[kind.name]
		if into == nil {
			into = &rawObject{}
			j.kinds[kind.name] = into
			j.components = append(j.components, rawMember{name: kind.name})
		}
		for _, m := range members {
			switch one, err := parseRaw(m.value); {
			case err != nil:
				return fmt.Errorf("component %s/%s: %w", kind.name, m.name, err)
			case !componentName.MatchString(m.name):
				return fmt.Errorf("component %s/%.50q has a name of other than letters, digits and ._-", kind.name, m.name)
			case into.get(m.name) != nil:
				return fmt.Errorf("component %s/%s is there already; put the module's name before it", kind.name, m.name)
			default:
				*into = append(*into, rawMember{m.name, one.indented(6)})
			}
		}
	}
	return nil
}

// checkReferences returns an error unless every $ref of a fragment names a component of
// the joined document.
func (j *join) checkReferences(fragment []byte) error {
	var value any
	if err := json.Unmarshal(fragment, &value); err != nil {
		return err
	}
	return j.walk(value)
}

func (j *join) walk(value any) error {
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			if err := j.walk(one); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, one := range value {
			if to, ok := one.(string); ok && name == "$ref" && !j.resolves(to) {
				return fmt.Errorf("$ref %.200q leads to no component of the document", to)
			}
			if err := j.walk(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (j *join) resolves(reference string) bool {
	rest, ok := strings.CutPrefix(reference, "#/components/")
	kind, name, two := strings.Cut(rest, "/")
	members := j.kinds[kind]
	return ok && two && members != nil && members.get(name) != nil
}

// document returns the joined document. Unchanged parts stay as they were written.
func (j *join) document() ([]byte, error) {
	for _, p := range j.added {
		j.paths = append(j.paths, rawMember{p.path, p.members.indented(4)})
	}
	for i, kind := range j.components {
		j.components[i].value = j.kinds[kind.name].lines(4)
	}
	for i, m := range j.top {
		switch m.name {
		case "paths":
			j.top[i].value = j.paths.lines(2)
		case "components":
			j.top[i].value = j.components.lines(2)
		}
	}
	joined := append(j.top.lines(0), '\n')
	if len(joined) > MaxDocument { // parameters of shared paths count once for each method
		return nil, fmt.Errorf("the API document with all modules' parts has %d bytes, and %d is the most", len(joined), MaxDocument)
	}
	return joined, nil
}

// rawObject is a JSON object whose members keep their order and text.
type rawObject []rawMember

type rawMember struct {
	name  string
	value json.RawMessage
}

// parseRaw parses a JSON object, and refuses one that has a member twice.
func parseRaw(text []byte) (rawObject, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	o := rawObject{}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := rawMember{name: name.(string)} // JSON has no other names
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		if seen[m.name] {
			return nil, fmt.Errorf("it has %q twice", m.name)
		}
		seen[m.name] = true
		o = append(o, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	return o, nil
}

// get returns the value of a member, nil if there is none.
func (o rawObject) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// lines formats o with a line for each member, which is indented by 2 more spaces than
// o is.
func (o rawObject) lines(indent int) []byte {
	if len(o) == 0 {
		return []byte("{}")
	}
	margin := "\n" + strings.Repeat(" ", indent)
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, _ := json.Marshal(m.name) // text has no error
		b = append(append(append(b, margin...), "  "...), name...)
		b = append(append(b, ": "...), m.value...)
	}
	return append(append(b, margin...), '}')
}

// indented formats o whole, for a place that is indented so far.
func (o rawObject) indented(indent int) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, o.lines(0), strings.Repeat(" ", indent), "  "); err != nil {
		return o.lines(indent) // cannot happen: o was parsed
	}
	return b.Bytes()
}
