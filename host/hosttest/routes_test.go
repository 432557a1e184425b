package hosttest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/host/hosttest"
	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

// modules returns a folder with the built modules, whose manifests change has changed,
// each module with the code of another where code names one.
func modules(t *testing.T, change func(manifests map[string]map[string]any), code map[string]string) string {
	t.Helper()
	from, dir := build(t), t.TempDir()
	from, err := filepath.Abs(from)
	if err != nil {
		t.Fatal(err)
	}
	manifests := map[string]map[string]any{}
	for _, name := range []string{"gate", "agents", "coaching", "leads", "sentinels", "webhooks"} {
		text, err := os.ReadFile(filepath.Join(from, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		manifest := map[string]any{}
		if err := json.Unmarshal(text, &manifest); err != nil {
			t.Fatal(err)
		}
		manifests[name] = manifest
	}
	change(manifests)
	link := func(target, name string) {
		if err := os.Symlink(filepath.Join(from, target), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(".cache", ".cache")
	for name, manifest := range manifests {
		text, err := json.Marshal(manifest)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		of := name
		if code[name] != "" {
			of = code[name]
		}
		link(of+".wasm", name+".wasm")
	}
	return dir
}

func onlyRoute(method, path, scope string) []any {
	return []any{map[string]any{"method": method, "path": path, "scope": scope}}
}

// addQuotes adds a module with a route of its own. Its code is that of agents.
func addQuotes(manifests map[string]map[string]any) {
	manifests["quotes"] = map[string]any{"name": "quotes", "capabilities": []string{"views"},
		"routes": onlyRoute("GET", "/api/v2/public/quotes/{id}", "x:quotes")}
}

// TestOlderManifests serves the contract by modules whose manifests are older than
// routes, as releases packed before have them.
func TestOlderManifests(t *testing.T) {
	dir := modules(t, func(manifests map[string]map[string]any) {
		for _, m := range manifests {
			delete(m, "routes")
		}
	}, nil)
	want := transcript(t, plain)
	got := transcript(t, func(backend *fake.Backend, now func() int64) http.Handler {
		return hosttest.Handler(t, dir, backend, now)
	})
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Error("the answers are others than those of plain Go")
	}
}

// TestOwnRoute asks for the route of a module that the gate was not built with.
func TestOwnRoute(t *testing.T) {
	dir := modules(t, addQuotes, map[string]string{"quotes": "agents"})
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			clock := fake.NewClock()
			backend, demo := fake.NewDemo(clock.Now)
			key := func(own string) string {
				token, _ := backend.AddKey(abi.Key{AccountID: demo.AccountID, Scopes: abi.ReadAgent, Own: own})
				return token
			}
			api := hosttest.Config{Engine: e.new}.Handler(t, dir, backend, clock.Now)
			for _, tt := range []struct {
				method, path, key string
				status            int
				allow             string
			}{
				{"GET", "quotes/1", key("x:quotes"), 200, ""},
				{"GET", "quotes/1", key("x:rates x:quotes"), 200, ""},
				{"GET", "quotes/a%2Fb", key("x:quotes"), 200, ""},
				{"GET", "quotes/1", key("x:quotes2"), 403, ""},
				{"GET", "quotes/1", demo.Live, 403, ""},
				{"GET", "quotes/1", "", 401, ""},
				{"POST", "quotes/1", key(""), 405, "GET"},
				{"GET", "quotes/", key("x:quotes"), 404, ""},
				{"GET", "quotes", key("x:quotes"), 404, ""},
				{"POST", "quotes/1", "", 401, ""},
				{"GET", "agents/me", key("x:quotes"), 200, ""},
			} {
				w, r := httptest.NewRecorder(), httptest.NewRequest(tt.method, "/api/v2/public/"+tt.path, nil)
				if tt.key != "" {
					r.Header.Set("Authorization", "Bearer "+tt.key)
				}
				api.ServeHTTP(w, r)
				if w.Code != tt.status || w.Header().Get("Allow") != tt.allow {
					t.Errorf("%s %s: %d %s, Allow %q; want %d, Allow %q", tt.method, tt.path, w.Code, w.Body, w.Header().Get("Allow"), tt.status, tt.allow)
				}
			}
		})
	}
}

// TestRefusesModules opens modules that cannot be one release.
func TestRefusesModules(t *testing.T) {
	clock := fake.NewClock()
	for _, tt := range []struct {
		name   string
		change func(manifests map[string]map[string]any)
		why    string
	}{
		{"a route of two modules", func(m map[string]map[string]any) {
			m["leads"]["routes"] = m["agents"]["routes"]
		}, "it is a route of module agents already"},
		{"a table for a handler", func(m map[string]map[string]any) {
			m["agents"]["capabilities"] = []string{"views", "routes"}
		}, "gate's alone"},
		{"no table for the gate", func(m map[string]map[string]any) {
			m["gate"]["capabilities"] = []string{"keys", "buckets", "lockouts"}
		}, "gate is not granted the capability routes"},
		{"no table for a gate that asks for it, of older modules", func(m map[string]map[string]any) {
			m["gate"]["capabilities"] = []string{"keys", "buckets", "lockouts"}
			for _, one := range m {
				delete(one, "routes")
			}
		}, "open module gate: warm up"},
		{"a shadow", func(m map[string]map[string]any) {
			m["agents"]["routes"] = onlyRoute("GET", "/api/v2/public/webhooks/export", "x:export")
		}, "would shadow DELETE /api/v2/public/webhooks/{id}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			backend, _ := fake.NewDemo(clock.Now)
			api, err := hosttest.Config{}.Open(t.Context(), modules(t, tt.change, nil), backend, clock.Now)
			if err == nil {
				_ = api.Close(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("%v, want %q", err, tt.why)
			}
		})
	}
}
