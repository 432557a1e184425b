package input

import (
	"encoding/json"
	"errors"
	"testing"
)

// TestFieldNames: a field has one name. What encoding/json would take for it as well is
// unknown, also beside the field itself and deeper in the body, and stays the caller's own
// in trigger_data.
func TestFieldNames(t *testing.T) {
	for body, reason := range map[string]string{
		`{"keys":"a","list":[{"mask":"b"}]}`:              "",
		`{"Keys":"a"}`:                                    "unknown_field",
		"{\"\u212aeys\":\"a\"}":                           "unknown_field",
		`{"\u212aeys":"a"}`:                               "unknown_field",
		`{"key\u017f":"a"}`:                               "unknown_field",
		"{\"li\u017ft\":[]}":                              "unknown_field",
		`{"keys":"a","key\u017f":"b"}`:                    "unknown_field",
		`{"key\u017f":"a","keys":"b"}`:                    "unknown_field",
		`{"list":[{"ma\u017fk":"b"}]}`:                    "unknown_field",
		`{"list":[{"mas\u212a":"b"}]}`:                    "unknown_field",
		`{"é":1}`:                                         "unknown_field",
		`{"other":1}`:                                     "unknown_field",
		`{"keys":"a","keys":"b"}`:                         "duplicate_field",
		`{"keys":"a","\u006beys":"b"}`:                    "duplicate_field",
		`{"trigger_data":{"s":1,"S":2,"\u017f":3,"é":4}}`: "",
		`{"trigger_data":{"ſ":1,"\u017f":2}}`:             "duplicate_field",
		`{"trigger_data":[{"\u212a":1},{"\u212a":1}]}`:    "",
	} {
		var v struct {
			Keys string `json:"keys"`
			List []struct {
				Mask string `json:"mask"`
			} `json:"list"`
			Data json.RawMessage `json:"trigger_data"`
		}
		err := decodeBody([]byte(body), &v)
		problem, _ := errors.AsType[*Problem](err)
		if reason == "" && err != nil || reason != "" && (problem == nil || problem.Kind != KindBody || problem.Reason != reason) {
			t.Errorf("%s gave %v, want %q", body, err, reason)
		}
	}
}

// FuzzDecode: whatever comes, the answer is a record or a problem of kind
// invalid_body, and a record that was taken has its own names alone and reads the same when
// written again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","list":[{"b":1}],"trigger_data":{"A":{"A":[1,null,"x"]}}}`, `{}`, `[]`, `null`, ``, `{`, `{"name":`, `{"name":"a"}}`,
		`{"name":"a","name":"b"}`, `{"Name":"a"}`, `{"x":1}`, `{"name":5}`, "{\"name\":\"\xff\"}", `{"trigger_data":{"a":1,"a":2}}`, ` {"name":"\u0000\ud800"} `,
		`{"list":[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]}`, `{"list":[null,{"b":1e999}]}`,
		`{"liſt":[]}`, `{"list":[{"b":1}],"liſt":[]}`, `{"li\u017ft":[]}`, "{\"\u212a\":1}", `{"trigger_data":{"s":1,"ſ":2}}`, `{"list":[{"B":1}]}`,
	} {
		f.Add([]byte(seed))
	}
	type record struct {
		Name *string `json:"name,omitempty"`
		List []struct {
			B *int64 `json:"b,omitempty"`
		} `json:"list,omitempty"`
		Data json.RawMessage `json:"trigger_data,omitempty"`
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var v record
		if err := decodeBody(body, &v); err != nil {
			var p *Problem
			if !errors.As(err, &p) || p.Kind != KindBody || p.Reason == "" {
				t.Fatalf("%q gave %v", body, err)
			}
			return
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatalf("%q was taken: %v", body, err)
		}
		for name := range fields {
			if name != "name" && name != "list" && name != "trigger_data" {
				t.Fatalf("%q was taken with the field %q", body, name)
			}
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%q was taken and cannot be written: %v", body, err)
		}
		var w record
		if err := decodeBody(again, &w); err != nil {
			t.Fatalf("%q was taken, and as %q refused: %v", body, again, err)
		}
	})
}
