package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"partneredge/edge/node/openapi"
	"partneredge/edge/release"
	"partneredge/wasm/abi"
)

const quotesFragment = `{
  "paths": {
    "/api/v2/public/quotes/{id}": {
      "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "get": {
        "operationId": "getQuote",
        "security": [],
        "responses": {
          "200": {"description": "A quote.", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Quote"}}}},
          "401": {"$ref": "#/components/responses/Unauthorized"}
        }
      }
    }
  },
  "components": {"schemas": {"Quote": {"type": "object", "properties": {"text": {"type": "string"}}}}}
}`

func quotes(fragment string) release.Fragment {
	return release.Fragment{Module: "quotes", JSON: []byte(fragment), Routes: []abi.Route{
		{Method: "GET", Path: "/api/v2/public/quotes/{id}", Scope: "x:quotes"},
		{Method: "GET", Path: "/api/v2/public/rates", Scope: "x:rates"},
	}}
}

// TestJoin checks that the joined document is valid, has all that the built-in one has,
// as it stands, and the fragment with its route's scope.
func TestJoin(t *testing.T) {
	joined, err := openapi.Join([]release.Fragment{quotes(quotesFragment)})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := libopenapi.NewDocument(joined)
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, problems := v.ValidateDocument(); !ok {
		t.Errorf("not valid: %v", problems[0])
	}
	type parts struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components map[string]map[string]json.RawMessage `json:"components"`
	}
	var got, base parts
	for text, into := range map[*[]byte]*parts{&joined: &got, ptr(openapi.Document()): &base} {
		if err := json.Unmarshal(*text, into); err != nil {
			t.Fatal(err)
		}
	}
	for path, item := range base.Paths {
		for method, operation := range item {
			if !bytes.Equal(got.Paths[path][method], operation) {
				t.Errorf("%s %s has changed", method, path)
			}
		}
	}
	var operation struct {
		Security []map[string][]string `json:"security"`
	}
	added := got.Paths["/api/v2/public/quotes/{id}"]["get"]
	if err := json.Unmarshal(added, &operation); err != nil || len(operation.Security) != 1 || operation.Security[0]["bearer"][0] != "x:quotes" {
		t.Errorf("%s: %v, want the scope x:quotes", added, err)
	}
	if len(got.Paths) != len(base.Paths)+1 || got.Components["schemas"]["Quote"] == nil || got.Components["responses"]["Unauthorized"] == nil {
		t.Errorf("%d paths, %d before", len(got.Paths), len(base.Paths))
	}
	if again, err := openapi.Join([]release.Fragment{quotes(quotesFragment)}); err != nil || !bytes.Equal(again, joined) {
		t.Errorf("joined again it differs: %v", err)
	}
}

func ptr(b []byte) *[]byte { return &b }

func TestJoinWithoutFragments(t *testing.T) {
	joined, err := openapi.Join(nil)
	if err != nil || !bytes.Equal(joined, openapi.Document()) {
		t.Errorf("not the document as it stands: %v", err)
	}
}

func TestJoinRefuses(t *testing.T) {
	const ok = `{"responses": {"200": {"description": "x"}}}`
	for _, tt := range []struct{ fragment, why string }{
		{`[]`, "not a JSON object"},
		{`{"paths": {}, "paths": {}}`, `"paths" twice`},
		{`{"info": {}}`, `the member "info"`},
		{`{"paths": []}`, "paths: it is not a JSON object"},
		{`{"paths": {"/api/v2/public/agents/me": {}}}`, "described already"},
		{`{"paths": {"/api/v2/public/rates": {"post": ` + ok + `}}}`, "describes POST /api/v2/public/rates, which is none of the module's routes"},
		{`{"paths": {"/api/v2/public/quotes/{name}": {"get": ` + ok + `}}}`, "none of the module's routes"},
		{`{"paths": {"/admin": {"get": ` + ok + `}}}`, "none of the module's routes"},
		{`{"paths": {"/api/v2/public/rates": {"servers": []}}}`, `the member "servers"`},
		{`{"paths": {"/api/v2/public/rates": {"$ref": "https://example.com"}}}`, `the member "$ref"`},
		{`{"paths": {"/api/v2/public/rates": {"get": {}}}}`, "has no responses"},
		{`{"paths": {"/api/v2/public/rates": {"get": {"responses": {}}}}}`, "has no responses"},
		{`{"paths": {"/api/v2/public/rates": {"get": {"operationId": 1, "responses": {"200": {}}}}}}`, "operationId that is no text"},
		{`{"paths": {"/api/v2/public/rates": {"get": {"operationId": "getAgent", "responses": {"200": {}}}}}}`, `"getAgent", which is in use`},
		{`{"components": {"securitySchemes": {}}}`, "cannot be joined"},
		{`{"components": {"schemas": {"Agent": {}}}}`, "schemas/Agent is there already"},
		{`{"components": {"schemas": {"a/b": {}}}}`, "has a name of other than"},
		{`{"components": {"schemas": {"A": true}}}`, "schemas/A: it is not a JSON object"},
		{`{"components": {"schemas": {"A": {"$ref": "#/components/schemas/Nothing"}}}}`, "leads to no component"},
		{`{"components": {"schemas": {"A": {"allOf": [{"$ref": "https://example.com/a.json"}]}}}}`, "leads to no component"},
		{`{"components": {"schemas": {"A": {"description": "` + strings.Repeat("x", openapi.MaxDocument) + `"}}}}`, "bytes, more than"},
		{`{"components": {"schemas": {"A": ` + strings.Repeat(`{"not":`, 20_000) + `{}` + strings.Repeat(`}`, 20_000) + `}}}`, "exceeded max depth"},
	} {
		if _, err := openapi.Join([]release.Fragment{quotes(tt.fragment)}); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%.120s: %v, want %q", tt.fragment, err, tt.why)
		}
	}
	if _, err := openapi.Join([]release.Fragment{quotes(quotesFragment), {Module: "mine", JSON: []byte(`{"components": {"schemas": {"Quote": {}}}}`)}}); err == nil ||
		!strings.Contains(err.Error(), "openapi of module mine: component schemas/Quote is there already") {
		t.Errorf("two modules with one component: %v", err)
	}
}

// TestTagFollowsDocument checks that clients ask again once there is another document.
func TestTagFollowsDocument(t *testing.T) {
	joined, err := openapi.Join([]release.Fragment{quotes(quotesFragment)})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(document []byte, tag string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", openapi.DocumentPath, nil)
		r.Header.Set("If-None-Match", tag)
		h, err := openapi.NewHandler(document)
		if err != nil {
			t.Fatal(err)
		}
		h.ServeHTTP(w, r)
		return w
	}
	before := ask(openapi.Document(), "")
	after := ask(joined, before.Header().Get("ETag"))
	if after.Code != http.StatusOK || !bytes.Equal(after.Body.Bytes(), joined) || after.Header().Get("Cache-Control") != "public, no-cache" {
		t.Errorf("answered %d, %v", after.Code, after.Header())
	}
	if again := ask(joined, after.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("the same document: %d", again.Code)
	}
}

// TestSelfReference serves a document with schemas that refer to themselves, and would
// be drawn without end.
func TestSelfReference(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf(`"p%d": {"$ref": "#/components/schemas/Many"}`, i))
	}
	fragment := `{"paths": {"/api/v2/public/rates": {"get": {"responses": {"200": {"description": "x", "content": {"application/json": {"schema":
		{"type": "object", "properties": {"a": {"$ref": "#/components/schemas/Any"}, "b": {"$ref": "#/components/schemas/List"}, "c": {"$ref": "#/components/schemas/Many"}}}}}}}}}},
		"components": {"schemas": {"Any": {"anyOf": [{"$ref": "#/components/schemas/Any"}, {"$ref": "#/components/schemas/Any"}]},
		"List": {"type": "array", "items": {"$ref": "#/components/schemas/List"}}, "Many": {"type": "object", "properties": {` + strings.Join(many, ",") + `}}}}}`
	document, err := openapi.Join([]release.Fragment{quotes(fragment)})
	if err == nil {
		_, err = openapi.NewHandler(document)
	}
	if err != nil {
		t.Error(err)
	}
}

// FuzzJoin checks that what is accepted is a document whose built-in paths are whole.
func FuzzJoin(f *testing.F) {
	f.Add([]byte(quotesFragment))
	f.Add([]byte(`{"components": {"headers": {"X": {"schema": {"type": "string"}}}}}`))
	f.Add([]byte(`{"paths": {"/api/v2/public/rates": {"get": {"responses": {"200": {"description": "\u0000\ud800"}}}}}}`))
	f.Add([]byte(`{"paths":{}}{}`))
	f.Fuzz(func(t *testing.T, fragment []byte) {
		joined, err := openapi.Join([]release.Fragment{quotes(string(fragment))})
		if err != nil {
			return
		}
		var document struct {
			Paths map[string]any `json:"paths"`
		}
		if err := json.Unmarshal(joined, &document); err != nil {
			t.Fatalf("%q makes a document that is no JSON: %v", fragment, err)
		}
		if document.Paths["/api/v2/public/agents/me"] == nil {
			t.Fatalf("%q removes agents/me", fragment)
		}
	})
}
