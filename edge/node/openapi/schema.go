package openapi

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// field is a member of a body, a parameter or a header.
type field struct {
	Name, Type  string
	Required    bool
	Description template.HTML
	Values      []string // all that it may be; none: anything of its type
	Extensible  bool     // there may be further values later
}

// deepest bounds the depth of objects in objects that is drawn.
const deepest = 6

// mostFields bounds the members that are drawn of one document, whose schemas may be
// made so that they multiply.
const mostFields = 20_000

// fields returns the members of an object, with those of the objects in it under
// names such as consent.status and insights[].id.
func (s *specification) fields(prefix string, schema object, depth int) (all []field) {
	if depth > deepest || s.drawn > mostFields || s.bytes > MaxReference {
		return nil
	}
	required := map[any]bool{}
	for _, name := range schema.list("required") {
		required[name] = true
	}
	for _, m := range schema.object("properties") {
		property, _ := m.value.(object)
		name := prefix + m.name
		s.drawn++
		all = append(all, s.field(name, property, required[m.name]))
		below, path := s.actual(property), name+"."
		if items := s.actual(below.object("items")); items != nil {
			below, path = items, name+"[]."
		}
		all = append(all, s.fields(path, below, depth+1)...)
	}
	return all
}

// actual returns the schema behind references and beside null.
func (s *specification) actual(schema object) object {
	schema = s.resolve(schema)
	for _, list := range []string{"anyOf", "oneOf"} {
		for _, one := range schema.list(list) {
			if o := s.resolve(one); o.text("type") != "null" {
				return o
			}
		}
	}
	return schema
}

// field describes one member by its schema.
func (s *specification) field(name string, schema object, required bool) field {
	if s.bytes > MaxReference {
		return field{}
	}
	actual := s.actual(schema)
	description := cmp.Or(schema.text("description"), actual.text("description"))
	f := field{Name: name, Type: s.typeOf(schema), Required: required, Description: s.markdown(description)}
	if c := actual.get("const"); c != nil {
		f.Values = []string{fmt.Sprint(c)}
	}
	further := actual.list("x-extensible-enum")
	f.Extensible = len(further) > 0
	for _, v := range slices.Concat(actual.list("enum"), further) {
		if v != nil {
			f.Values = append(f.Values, fmt.Sprint(v))
		}
	}
	size := len(f.Name)
	for _, v := range f.Values {
		size += len(v)
	}
	if !s.spend(size) {
		return field{}
	}
	return f
}

// typeOf names a schema's type in words: "list of string", "string or null".
func (s *specification) typeOf(schema object) string { return s.typeWithin(schema, 0) }

// typeWithin is typeOf for a schema that lies in depth others. One that refers to
// itself comes to an end.
func (s *specification) typeWithin(schema object, depth int) string {
	if depth > deepest || s.drawn > mostFields || s.bytes > MaxReference {
		return "any"
	}
	s.drawn++
	resolved := s.resolve(schema)
	for _, list := range []string{"anyOf", "oneOf"} {
		var names []string
		for _, one := range resolved.list(list) {
			o, _ := one.(object)
			names = append(names, s.typeWithin(o, depth+1))
		}
		if len(names) > 0 {
			return strings.Join(names, " or ")
		}
	}
	switch t := resolved.get("type").(type) {
	case string:
		if t == "array" {
			if items := s.typeWithin(resolved.object("items"), depth+1); items != "" {
				return "list of " + items
			}
			return "list"
		}
		if resolved.text("format") == "date-time" {
			return "time"
		}
		s.spend(len(t))
		return t
	case []any:
		var names []string
		for _, one := range t {
			name := fmt.Sprint(one)
			s.spend(len(name))
			names = append(names, name)
		}
		return strings.Join(names, " or ")
	}
	return "any"
}
