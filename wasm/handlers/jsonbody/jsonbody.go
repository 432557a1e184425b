// Package jsonbody validates and reads the JSON bodies of requests.
package jsonbody

import (
	"github.com/valyala/fastjson"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
)

// Object parses b. ok is false unless b is Valid and a JSON object. The values
// do not share memory with b.
func Object(b []byte) (o *fastjson.Object, ok bool) {
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

// Refuse answers a request whose body Object does not accept.
func Refuse(resp *abi.Response) {
	answer.Error(resp, 400, "invalid_body", "json_parse_failed")
}

// Member returns the value of o's member name, nil if it is absent or null. Of
// several with the same name the last one counts, as in most JSON parsers.
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

// Text returns the text of v, "" if v is nil. ok is false if v is no string.
func Text(v *fastjson.Value) (s string, ok bool) {
	if v == nil {
		return "", true
	}
	b, err := v.StringBytes()
	return string(b), err == nil
}
