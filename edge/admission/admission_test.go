package admission

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"partneredge/edge/release"
	"partneredge/host/prepare"
	"partneredge/wasm/abi"
)

const code = "\x00asm\x01\x00\x00\x00"

func module(name, manifest string) release.Module {
	return release.Module{Name: name, Wasm: []byte(code), Manifest: []byte(manifest)}
}

var (
	gate   = module("gate", `{"name": "gate", "capabilities": ["keys", "routes"], "headers": ["authorization"]}`)
	quotes = module("quotes", `{"name": "quotes", "capabilities": ["views"], "headers": ["accept"],
		"routes": [{"method": "GET", "path": "/api/v2/public/quotes", "scope": "x:quotes"}],
		"openapi": {"paths": {"/api/v2/public/quotes": {"get": {"operationId": "getQuotes", "responses": {"200": {"description": "x"}}}}}}}`)
)

func TestJudge(t *testing.T) {
	a, err := Judge([]release.Module{gate, quotes})
	if err != nil {
		t.Fatal(err)
	}
	if want := (abi.Routes{{Handler: "quotes", Method: "GET", Path: "/api/v2/public/quotes", Scope: "x:quotes"}}); !slices.Equal(a.Routes, want) {
		t.Errorf("routes %v", a.Routes)
	}
	if m := a.Manifests["quotes"]; !slices.Equal(m.Capabilities, []abi.Capability{abi.Views}) {
		t.Errorf("manifest %+v", m)
	}
	w := httptest.NewRecorder()
	a.Docs.ServeHTTP(w, httptest.NewRequest("GET", "/api/v2/public/openapi.json", nil))
	if !strings.Contains(w.Body.String(), "getQuotes") {
		t.Errorf("document: %d %s", w.Code, w.Body)
	}
}

func TestJudgeRefuses(t *testing.T) {
	changed := func(old, new string) release.Module {
		m := quotes
		m.Manifest = []byte(strings.Replace(string(m.Manifest), old, new, 1))
		if string(m.Manifest) == string(quotes.Manifest) {
			t.Fatalf("no %s", old)
		}
		return m
	}
	huge := quotes
	huge.Wasm = append([]byte(code), make([]byte, release.MaxWasm)...)
	long := quotes
	long.Wasm = longFunction(prepare.MaxFunction + 1)
	for _, tt := range []struct {
		name    string
		modules []release.Module
		why     string
	}{
		{"nothing", nil, "0 modules"},
		{"no gate", []release.Module{quotes}, "no module named gate"},
		{"the gate alone", []release.Module{gate}, "no module but gate"},
		{"twice", []release.Module{gate, quotes, quotes}, "each there once"},
		{"too large", []release.Module{gate, huge}, "module quotes has 67108872 bytes"},
		{"a function that is too long", []release.Module{gate, long}, "module quotes: prepare module: at offset 0x17: function 0 of those it defines has 65537 bytes of code"},
		{"a manifest that is too large", []release.Module{gate, changed(`"x"`, `"`+strings.Repeat("x", release.MaxManifest)+`"`)}, "the manifest of module quotes has"},
		{"no WebAssembly", []release.Module{gate, {Name: "quotes", Wasm: []byte("MZ"), Manifest: quotes.Manifest}}, "not WebAssembly"},
		{"another's manifest", []release.Module{gate, changed(`"name": "quotes"`, `"name": "rates"`)}, `that of "rates"`},
		{"a grant that is misspelt", []release.Module{gate, changed(`"headers"`, `"haeders"`)}, `unknown field "haeders"`},
		{"an unknown capability", []release.Module{gate, changed("views", "veiws")}, `no capability "veiws"`},
		{"the gate's capability", []release.Module{gate, changed("views", "keys")}, "gate's alone"},
		{"a target without a port", []release.Module{gate, changed(`"routes"`, `"allow_dial": ["rates.example:443", "rates.example"], "routes"`)}, `module quotes: allow_dial "rates.example": `},
		{"a target that no resolver takes", []release.Module{gate, changed(`"routes"`, `"allow_dial": ["rates example:443"], "routes"`)}, "neither an address nor a name"},
		{"a warm-up that is longer than requests", []release.Module{gate, changed(`"routes"`, `"warmup": [{}, {"body": "`+strings.Repeat("x", abi.MaxRequest)+`"}], "routes"`)},
			"module quotes: request 2 of warmup takes 131"},
		{"a header in capitals", []release.Module{gate, changed("accept", "Accept")}, "lower case"},
		{"a route that shadows", []release.Module{gate, changed("public/quotes", "public/agents/me")}, "agents/me"},
		{"a description of another route", []release.Module{gate, changed(`{"/api/v2/public/quotes"`, `{"/api/v2/public/rates"`)}, "none of the module's routes"},
		{"a description that nests", []release.Module{gate, changed(`"description": "x"`, `"description": "x", "x-y": `+strings.Repeat("[", 64)+strings.Repeat("]", 64))}, "deep in each other"},
	} {
		if _, err := Judge(tt.modules); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.why)
		}
	}
}

// TestCheckDials: addresses are judged wherever modules of a release name them, after the
// release itself, which nodes go on taking.
func TestCheckDials(t *testing.T) {
	for _, tt := range []struct{ allow, refused string }{
		{`"10.0.0.5:8080"`, "10.0.0.5:8080"},
		{`"1.1.1.1:443", "[fd00::1]:443"`, "[fd00::1]:443"},
		{`"1.1.1.1:443", "rates.example:443", "[2606:4700::1]:80"`, ""},
	} {
		m := module("quotes", `{"name": "quotes", "allow_dial": [`+tt.allow+`]}`)
		a, err := Judge([]release.Module{gate, m})
		if err != nil {
			t.Errorf("%s: %v", tt.allow, err)
			continue
		}
		err = a.CheckDials(func(addr netip.AddrPort) error {
			if addr.Addr().IsPrivate() {
				return errors.New("private")
			}
			return nil
		})
		if tt.refused == "" && err != nil || tt.refused != "" && (err == nil || !strings.Contains(err.Error(), "module quotes: allow_dial has "+tt.refused)) {
			t.Errorf("%s: %v", tt.allow, err)
		}
	}
}

// longFunction returns a module whose one function has size bytes of code.
func longFunction(size int) []byte {
	const types = "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00"
	content := binary.AppendUvarint([]byte{1}, uint64(size))
	content = append(append(content, 0), bytes.Repeat([]byte{0x01}, size-2)...) // no locals
	wasm := binary.AppendUvarint([]byte(code+types+"\x0a"), uint64(len(content)+1))
	return append(append(wasm, content...), 0x0b)
}
