package release

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"oras.land/oras-go/v2/content/memory"
)

// TestPackRefusesManifests packs modules whose manifests cannot be those of one release.
func TestPackRefusesManifests(t *testing.T) {
	const quotes = `{"method": "GET", "path": "/api/v2/public/quotes", "scope": "x:quotes"}`
	route := func(text string) string { return `{"name": "leads", "routes": [` + text + `]}` }
	for _, tt := range []struct{ name, gate, leads, why string }{
		{"accepted", `{"name": "gate", "capabilities": ["routes"]}`, route(quotes), ""},
		{"older than routes", `{"name": "gate"}`, `{"name": "leads"}`, ""},
		{"a gate older than routes", `{"name": "gate"}`, route(quotes), "gate is not granted the capability routes"},
		{"the same twice", `{"name": "gate", "capabilities": ["routes"]}`, route(quotes + "," + quotes), "is a route of module leads already"},
		{"of the contract, twice", `{"name": "gate", "capabilities": ["routes"]}`,
			route(`{"method": "GET", "path": "/api/v2/public/agents/me", "scope": "read:agent"}`), "of module agents already"},
		{"outside", `{"name": "gate", "capabilities": ["routes"]}`, route(`{"method": "GET", "path": "/admin/v1/nodes", "scope": "x:a"}`), "does not begin with"},
		{"a scope nobody can have", `{"name": "gate", "capabilities": ["routes"]}`, route(`{"method": "GET", "path": "/api/v2/public/q", "scope": "admin"}`), "no key can have the scope"},
		{"no list", `{"name": "gate"}`, `{"name": "leads", "routes": {}}`, "the manifest of module leads"},
		{"no text", `{"name": "gate"}`, route(`{"method": 1}`), "the manifest of module leads"},
		{"a gate with routes", `{"name": "gate", "capabilities": ["routes"], "routes": [` + quotes + `]}`, `{"name": "leads"}`, "gate declares routes"},
		{"keys for another", `{"name": "gate"}`, `{"name": "leads", "headers": ["Authorization"]}`, "keys are for gate alone"},
		{"a table for another", `{"name": "gate"}`, `{"name": "leads", "capabilities": ["routes"]}`, "gate's alone"},
	} {
		dir := modulesDir(t, "", "gate", "agents", "leads")
		writeFile(t, filepath.Join(dir, "gate.json"), tt.gate)
		writeFile(t, filepath.Join(dir, "leads.json"), tt.leads)
		_, err := Pack(t.Context(), memory.New(), dir, "1.0.0")
		switch {
		case tt.why == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.why != "" && (!errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), tt.why)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.why)
		}
	}
}
