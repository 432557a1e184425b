package release

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
)

const differGate = `{"name": "gate", "capabilities": ["keys", "routes"], "headers": ["authorization"]}`

// differs returns a module with the routes and grants of a manifest.
func differs(name, wasm, manifest string) Module {
	return Module{Name: name, Wasm: []byte(wasm), Manifest: []byte(manifest)}
}

func TestCompare(t *testing.T) {
	quotes := func(scope, grants string) string {
		return fmt.Sprintf(`{"name": "quotes", %s, "routes": [{"method": "GET", "path": "/api/v2/public/quotes/{id}", "scope": %q}]}`, grants, scope)
	}
	gate := differs("gate", "gate", differGate)
	before := []Module{gate, differs("agents", "agents", `{"name": "agents"}`), differs("quotes", "old",
		quotes("x:quotes", `"capabilities": ["views", "outbox"], "headers": ["x-old"], "allow_dial": ["rates.example:443"]`))}
	after := []Module{gate, differs("quotes", "newer", quotes("read:agent", `"capabilities": ["views"], "headers": ["x-new"]`)),
		differs("rates", "rates", `{"name": "rates", "capabilities": ["views"], "routes": [{"method": "POST", "path": "/api/v2/public/rates", "scope": "x:rates"}]}`)}
	got, err := Compare(before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := Difference{
		Modules: []ModuleChange{
			{Removed, "agents", 6, 0, true, true}, {Changed, "quotes", 3, 5, true, true}, {Added, "rates", 0, 5, true, true},
		},
		Routes: []RouteChange{
			{Removed, "GET", "/api/v2/public/agents/me", &RouteOwner{"agents", "read:agent"}, nil},
			{Changed, "GET", "/api/v2/public/quotes/{id}", &RouteOwner{"quotes", "x:quotes"}, &RouteOwner{"quotes", "read:agent"}},
			{Added, "POST", "/api/v2/public/rates", nil, &RouteOwner{"rates", "x:rates"}},
		},
		Grants: []GrantChange{
			{Removed, "quotes", "allow_dial", "rates.example:443"}, {Removed, "quotes", "capability", "outbox"},
			{Added, "quotes", "header", "x-new"}, {Removed, "quotes", "header", "x-old"}, {Added, "rates", "capability", "views"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("compared:\n%+v\nwant:\n%+v", got, want)
	}

	if same, err := Compare(after, after); err != nil || !reflect.DeepEqual(same, Difference{[]ModuleChange{}, []RouteChange{}, []GrantChange{}}) {
		t.Errorf("the same modules: %+v, %v", same, err)
	}
	for _, sides := range [][2][]Module{{before, append(before, before[2])}, {append(before, before[2]), before}} {
		if _, err := Compare(sides[0], sides[1]); !errors.Is(err, ErrMalformed) {
			t.Errorf("modules that contradict each other: %v", err)
		}
	}
}

// TestOutline: what is read without the code has its digests and sizes, and damage of
// what is read is found.
func TestOutline(t *testing.T) {
	s := newLayout(t)
	digest := s.pack("1.4.0")
	whole, err := Inspect(t.Context(), OCI(s.Store), digest)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range whole.Modules { // the code is not needed
		s.change(m.Digest(), halve)
	}
	outline, err := Outline(t.Context(), OCI(s.Store), digest)
	if err != nil {
		t.Fatal(err)
	}
	if outline.Version != "1.4.0" || outline.Size() != whole.Size() || len(outline.Modules) != len(whole.Modules) {
		t.Errorf("read %+v, want %+v", outline, whole)
	}
	for i, m := range outline.Modules {
		if w := whole.Modules[i]; m.Digest() != w.Digest() || m.Size() != w.Size() || m.Size() != int64(len(w.Wasm)) || m.Wasm != nil {
			t.Errorf("module %s: %s, %d bytes, want %s, %d", m.Name, m.Digest(), m.Size(), w.Digest(), w.Size())
		}
	}
	s.change(string(whole.Modules[0].described.Digest), flip)
	_, err = Outline(t.Context(), OCI(s.Store), digest)
	wants(t, err, ErrTampered)
}
