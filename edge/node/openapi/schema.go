package openapi

import (
	"fmt"
	"html/template"
	"strings"
)

// field is a member of a body, a parameter or a header.
type field struct {
	Name, Type  string
	Required    bool
	Description template.HTML
	Values      []string // all that it may be; none: anything of its type
}

// deepest is how many objects in objects are drawn.
const deepest = 6

// fields returns the members of an object, with those of the objects in it under
// names such as consent.status and insights[].id.
func (s *specification) fields(prefix string, schema object, depth int) (all []field) {
	if depth > deepest {
		return nil
	}
	required := map[any]bool{}
	for _, name := range schema.list("required") {
		required[name] = true
	}
	for _, m := range schema.object("properties") {
		property, _ := m.value.(object)
		name := prefix + m.name
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
	actual := s.actual(schema)
	description := schema.text("description")
	if description == "" {
		description = actual.text("description")
	}
	f := field{Name: name, Type: s.typeOf(schema), Required: required, Description: s.markdown(description)}
	if c := actual.get("const"); c != nil {
		f.Values = []string{fmt.Sprint(c)}
	}
	for _, v := range actual.list("enum") {
		if v != nil {
			f.Values = append(f.Values, fmt.Sprint(v))
		}
	}
	return f
}

// typeOf names a schema's type in words: "list of string", "string or null".
func (s *specification) typeOf(schema object) string {
	resolved := s.resolve(schema)
	for _, list := range []string{"anyOf", "oneOf"} {
		var names []string
		for _, one := range resolved.list(list) {
			o, _ := one.(object)
			names = append(names, s.typeOf(o))
		}
		if len(names) > 0 {
			return strings.Join(names, " or ")
		}
	}
	switch t := resolved.get("type").(type) {
	case string:
		if t == "array" {
			if items := s.typeOf(resolved.object("items")); items != "" {
				return "list of " + items
			}
			return "list"
		}
		if resolved.text("format") == "date-time" {
			return "time"
		}
		return t
	case []any:
		var names []string
		for _, one := range t {
			names = append(names, fmt.Sprint(one))
		}
		return strings.Join(names, " or ")
	}
	return "any"
}
