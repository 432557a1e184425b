package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"partneredge/edge/node/openapi"
	"partneredge/edge/openapitest"
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
	document, err := openapitest.Read(joined)
	if err != nil {
		t.Fatal(err)
	}
	if document.Operation("GET", "/api/v2/public/quotes/{id}") == nil {
		t.Error("the fragment's operation is missing")
	}
	type parts struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components map[string]map[string]json.RawMessage `json:"components"`
	}
	var got, base parts
	for text, into := range map[*[]byte]*parts{&joined: &got, new(openapi.Document()): &base} {
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
		{`{"components": {"schemas": {"A": {"description": "` + strings.Repeat("x", openapi.MaxDocument) + `"}}}}`, "bytes, and 4194304 is the most"},
		{`{"components": {"schemas": {"A": ` + strings.Repeat(`{"not":`, 20_000) + `{}` + strings.Repeat(`}`, 20_000) + `}}}`, "deep in each other, and 64 is the most"},
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

// TestMultiplies: a small fragment that stands for a great document, or for a great
// reference page, is refused, and soon.
func TestMultiplies(t *testing.T) {
	const around = `{"paths": {"/api/v2/public/rates": {"get": {"parameters": [%s], "responses": {"200": {"description": "x", "content": {"application/json": {%s}}}}}}}, "components": {%s}}`
	list := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	members := func(n int, one string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"m%d": %s,`, i, one)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	deep := strings.Repeat("[", 50) + list(100_000, "1") + strings.Repeat("]", 50)
	long := strings.Repeat("x", 200_000)
	for _, tt := range []struct{ name, parameters, content, components, why string }{
		{"indentation", "", `"example": ` + deep, "", "and 4194304 is the most"},
		{"nesting", "", `"example": ` + strings.Repeat("[", 64) + strings.Repeat("]", 64), "", "deep in each other"},
		{"a description", "", `"schema": {"properties": {` + members(2000, `{"$ref": "#/components/schemas/A"}`) + `}}`, `"schemas": {"A": {"description": "` + long + `"}}`, "the reference page"},
		{"an enum", list(2000, `{"$ref": "#/components/parameters/A"}`), "", `"parameters": {"A": {"name": "a", "in": "query", "schema": {"enum": ["` + long + `"]}}}`, "the reference page"},
		{"a type", "", `"schema": {"properties": {"a": {"oneOf": [` + list(2000, `{"$ref": "#/components/schemas/A"}`) + `]}}}`, `"schemas": {"A": {"type": "` + long + `"}}`, "the reference page"},
		{"an example", "", `"examples": {` + members(2000, `{"$ref": "#/components/examples/A"}`) + `}`, `"examples": {"A": {"value": "` + long + `"}}`, "the reference page"},
	} {
		fragment := quotes(fmt.Sprintf(around, tt.parameters, tt.content, tt.components))
		if !json.Valid(fragment.JSON) {
			t.Fatalf("%s: no JSON", tt.name)
		}
		document, err := openapi.Join([]release.Fragment{fragment})
		if err == nil {
			_, err = openapi.NewHandler(document)
		}
		if err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.why)
		}
	}
	fits := quotes(fmt.Sprintf(around, "", `"example": `+strings.Repeat("[", 50)+strings.Repeat("]", 50), ""))
	if _, err := openapi.Join([]release.Fragment{fits}); err != nil {
		t.Errorf("what fits: %v", err)
	}
}

// TestJoinSharesPaths: two modules describe different methods of one path.
func TestJoinSharesPaths(t *testing.T) {
	const path = "/api/v2/public/quotes/{id}"
	module := func(name, method, item string) release.Fragment {
		return release.Fragment{Module: name, JSON: fmt.Appendf(nil, `{"paths": {%q: %s}}`, path, item),
			Routes: []abi.Route{{Method: method, Path: path, Scope: "x:" + name}}}
	}
	const id = `{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}`
	reads := module("reads", "GET", `{"summary": "Read", "parameters": [`+id+`], "get": {"responses": {"200": {"description": "x"}}}}`)
	writes := module("writes", "PUT", `{"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer"}}, {"name": "dry", "in": "query", "schema": {}}],
		"put": {"parameters": [`+id+`], "responses": {"200": {"description": "x"}}}}`)
	joined, err := openapi.Join([]release.Fragment{reads, writes})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct{ Type string }
			}
			Security []map[string][]string
		}
	}
	if err := json.Unmarshal(joined, &got); err != nil {
		t.Fatal(err)
	}
	item := got.Paths[path]
	if get, put := fmt.Sprint(item["get"]), fmt.Sprint(item["put"]); len(item) != 2 ||
		get != "{[{id {string}}] [map[bearer:[x:reads]]]}" || put != "{[{id {string}} {dry {}}] [map[bearer:[x:writes]]]}" {
		t.Errorf("joined: %+v", item)
	}
	if _, err := openapi.NewHandler(joined); err != nil {
		t.Error(err)
	}
	again := writes
	again.Module = "again"
	if _, err := openapi.Join([]release.Fragment{reads, writes, again}); err == nil || !strings.Contains(err.Error(), "openapi of module again: "+path+": PUT is described already") {
		t.Errorf("the same method twice: %v", err)
	}
}

// TestSampleVariables: a parameter does not take the name of another variable.
func TestSampleVariables(t *testing.T) {
	const path = "/api/v2/public/q/{node}/{path}/{who}"
	document, err := openapi.Join([]release.Fragment{{Module: "q", Routes: []abi.Route{{Method: "GET", Path: path, Scope: "x:q"}},
		JSON: []byte(`{"paths": {"` + path + `": {"parameters": [{"name": "who", "in": "path", "description": "Of whom."}], "get": {"operationId": "q", "responses": {"200": {"description": "x"}}}}}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := openapi.NewHandler(document)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/docs", nil))
	page := w.Body.String()
	for _, want := range []string{"$EDGE_URL/api/v2/public/q/$PARAM_NODE/$PARAM_PATH/$WHO", "Of whom.", "need <code>PARAM_PATH</code>: set it to the <code>path</code>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
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
