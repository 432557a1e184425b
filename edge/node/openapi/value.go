package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// object is a JSON object whose members keep the order of the document.
type object []member

type member struct {
	name  string
	value any // object, []any, string, json.Number, bool or nil
}

// parse decodes a JSON object.
func parse(text []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := parseValue(d)
	if err != nil {
		return nil, fmt.Errorf("parse the OpenAPI document: %w", err)
	}
	o, ok := v.(object)
	if !ok {
		return nil, fmt.Errorf("parse the OpenAPI document: it is no object")
	}
	return o, nil
}

func parseValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			o = append(o, member{fmt.Sprint(name), value})
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := parseValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

// get returns a member's value, nil if there is none.
func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// object returns a member that is an object, nil if there is none.
func (o object) object(name string) object {
	v, _ := o.get(name).(object)
	return v
}

// list returns a member that is a list, nil if there is none.
func (o object) list(name string) []any {
	v, _ := o.get(name).([]any)
	return v
}

// text returns a member that is a string, "" if there is none.
func (o object) text(name string) string {
	v, _ := o.get(name).(string)
	return v
}

// show returns JSON that is on one line indented, unless it is short.
func show(line string) string {
	if len(line) <= 60 {
		return line
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(line), "", "  "); err != nil {
		return "" // encode writes JSON
	}
	return out.String()
}

// encode returns v as JSON on one line, members in their order.
func encode(v any) string {
	switch v := v.(type) {
	case object:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = encode(m.name) + ":" + encode(m.value)
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = encode(one)
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "null" // a scalar of a JSON document always encodes
	}
	return strings.TrimSpace(out.String())
}
