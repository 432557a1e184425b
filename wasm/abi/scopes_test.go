package abi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIsOwnScope(t *testing.T) {
	for name, want := range map[string]bool{
		"x:quotes": true, "x:a": true, "x:0-9": true, "x:-": true, "x:" + strings.Repeat("a", 40): true,
		"x:" + strings.Repeat("a", 41): false, "x:": false, "x": false, "": false, "x:Quotes": false, "x:a_b": false,
		"x:a b": false, "y:a": false, "read:agent": false, "X:a": false, "x:a:b": false, "x:\xff": false, " x:a": false,
	} {
		if IsOwnScope(name) != want {
			t.Errorf("IsOwnScope(%q) = %t", name, !want)
		}
	}
}

// TestSplitScopes: what a key is said to have is what a gate finds, and nothing else.
func TestSplitScopes(t *testing.T) {
	name := rapid.OneOf(rapid.SampledFrom(ScopeNames[:]), rapid.SampledFrom([]string{"x:a", "x:b", "x:ab", "x:", "read:all", "x:a b", ""}))
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(name).Draw(t, "names")
		bits, own := SplitScopes(names)
		for i, known := range ScopeNames {
			if bits&(1<<i) != 0 != slices.Contains(names, known) {
				t.Fatalf("%q: bits %b", names, bits)
			}
		}
		for _, one := range []string{"x:a", "x:b", "x:ab", "x:", "read:all", "x:a b", ""} {
			if HasOwn(own, one) != (IsOwnScope(one) && slices.Contains(names, one)) {
				t.Fatalf("%q: own scopes %q, of which %q", names, own, one)
			}
		}
	})
	var many []string
	for i := range MaxOwnScopes + 1 {
		many = append(many, fmt.Sprintf("x:%d", i))
	}
	if _, own := SplitScopes(many); len(strings.Fields(own)) != MaxOwnScopes {
		t.Errorf("own scopes %q, more than %d", own, MaxOwnScopes)
	}
}

// TestOlderFrames checks frames between a host and a guest of which one knows of one
// parameter only, and of no own scopes.
func TestOlderFrames(t *testing.T) {
	key := Key{ID: "key_1", Allowlist: []string{"::/0"}}
	older := key.Append(nil)
	key.Own = "x:quotes"
	if got := WithoutOwn(key.Append(nil)); string(got) != string(older) {
		t.Errorf("without own scopes %q, want %q", got, older)
	}
	for _, malformed := range [][]byte{nil, {1, 2, 3}, older[:40]} {
		if got := WithoutOwn(malformed); len(got) != len(malformed) {
			t.Errorf("a malformed frame became %q", got)
		}
	}
	// A gate that knows of one parameter writes no extras, and the parameter's value.
	b := (&Response{Handler: "webhooks", Params: []Param{{"id", "whs_1"}}}).Append(nil)
	older = (&Response{Handler: "webhooks"}).Append(nil)
	at := len(older) - 4 - 4 // before the length of the first parameter's value, and of the body
	frame := append(append(slices.Clone(older[:at]), "\x05\x00\x00\x00whs_1"...), older[at+4:]...)
	var resp Response
	if err := resp.Parse(frame); err != nil || len(resp.Params) != 1 || resp.Params[0].Value != "whs_1" {
		t.Errorf("parsed %+v, %v", resp.Params, err)
	}
	// A guest that knows of one parameter finds its value, and one header more.
	if len(b) < len(frame) || b[1] != 1 || b[2] != 1 || string(b[at:at+9]) != "\x05\x00\x00\x00whs_1" {
		t.Errorf("frame %q", b)
	}
}
