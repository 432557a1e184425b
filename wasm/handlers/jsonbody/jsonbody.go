// Package jsonbody reads the JSON bodies of the partner interface.
package jsonbody

import (
	"github.com/valyala/fastjson"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
)

// Object reads b, which must be Valid and one JSON object. Values share nothing
// with b.
func Object(b []byte) (*fastjson.Object, bool) {
	if !Valid(b) {
		return nil, false
	}
	var p fastjson.Parser
	v, err := p.ParseBytes(b)
	if err != nil || v.Type() != fastjson.TypeObject {
		return nil, false
	}
	return v.GetObject(), true
}

// Refuse answers a body that Object does not take.
func Refuse(resp *abi.Response) {
	answer.Error(resp, 400, "invalid_body", "json_parse_failed")
}

// Member is the value of o's member name, nil where there is none or it is
// null. Of several with the same name the last one counts, as in most readers
// of JSON.
func Member(o *fastjson.Object, name string) (value *fastjson.Value) {
	o.Visit(func(key []byte, v *fastjson.Value) {
		if string(key) == name {
			value = v
		}
	})
	if value != nil && value.Type() == fastjson.TypeNull {
		return nil
	}
	return value
}

// Text is the text of v, "" where v is nil; not ok when v is no string.
func Text(v *fastjson.Value) (s string, ok bool) {
	if v == nil {
		return "", true
	}
	b, err := v.StringBytes()
	return string(b), err == nil
}
