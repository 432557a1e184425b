package input

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
)

// FuzzDecode: whatever comes, the answer is a record or a problem of kind
// invalid_body, and a record that was taken reads the same when written again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","list":[{"b":1}],"trigger_data":{"A":{"A":[1,null,"x"]}}}`, `{}`, `[]`, `null`, ``, `{`, `{"name":`, `{"name":"a"}}`,
		`{"name":"a","name":"b"}`, `{"Name":"a"}`, `{"x":1}`, `{"name":5}`, "{\"name\":\"\xff\"}", `{"trigger_data":{"a":1,"a":2}}`, ` {"name":"\u0000\ud800"} `,
		`{"list":[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]}`, `{"list":[null,{"b":1e999}]}`,
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

// FuzzPrefix: a network that is taken is in its plain form, holds its own
// address, and reads the same again.
func FuzzPrefix(f *testing.F) {
	for _, seed := range []string{
		"192.0.2.7", "10.1.2.3/8", "2001:db8::1/32", "::ffff:192.0.2.9", "::ffff:10.0.0.0/104", "::ffff:0:0/95", "fe80::1%lo", "0.0.0.0/0", "::/0", "10.0.0.0/33", "", "/8", "1.2.3.4/", "127.1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := Prefix(s)
		if !ok {
			return
		}
		if p != p.Masked() || !p.Contains(p.Addr()) || p.Addr().Is4In6() || p.Addr().Zone() != "" {
			t.Fatalf("%q gave %v", s, p)
		}
		if again, ok := Prefix(p.String()); !ok || again != p {
			t.Fatalf("%q gave %v, and that %v", s, p, again)
		}
		if a, err := netip.ParseAddr(s); err == nil && !p.Contains(a.Unmap()) {
			t.Fatalf("%q gave %v, which leaves it out", s, p)
		}
	})
}
