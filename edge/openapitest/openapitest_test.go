package openapitest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"partneredge/edge/openapitest"
)

const document = `{
  "openapi": "3.1.0",
  "info": {"title": "Quotes", "version": "1"},
  "servers": [{"url": "/api"}],
  "security": [{"bearer": []}],
  "paths": {
    "/quotes/{id}": {
      "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string", "pattern": "^quo_"}}],
      "get": {
        "parameters": [
          {"name": "limit", "in": "query", "schema": {"$ref": "#/components/schemas/Limit"}},
          {"name": "since", "in": "query", "required": true, "schema": {"type": "string", "format": "date-time"}},
          {"name": "X-Trace", "in": "header", "schema": {"type": "string", "maxLength": 3}}
        ],
        "responses": {
          "200": {
            "description": "A quote.",
            "headers": {
              "X-Left": {"required": true, "schema": {"type": "integer", "minimum": 0}},
              "X-Replayed": {"schema": {"const": "true"}}
            },
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Quote"}, "examples": {"one": {"value": {"text": "x"}}}}}
          },
          "4XX": {"$ref": "#/components/responses/Refused"}
        }
      },
      "put": {
        "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Quote"}}}},
        "responses": {"204": {"description": "Kept."}}
      }
    },
    "/quotes/latest": {
      "parameters": [{"name": "at", "in": "query", "required": true, "schema": {"type": "string"}}],
      "post": {
        "parameters": [{"name": "at", "in": "query", "schema": {"type": "integer"}}],
        "responses": {"204": {"description": "Drawn."}, "default": {"$ref": "#/components/responses/Refused"}}
      }, "get": {"security": [], "responses": {"200": {"description": "A list.", "content": {"text/plain": {}}}}}}
  },
  "webhooks": {"quoted": {"post": {
    "security": [],
    "parameters": [{"name": "X-Event", "in": "header", "required": true, "schema": {"const": "quoted"}}],
    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Quote"}}}},
    "responses": {"2XX": {"description": "Taken."}}
  }}},
  "components": {
    "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    "responses": {"Refused": {"description": "No.", "content": {"application/json": {"schema": {"type": "object", "required": ["error"]}}}}},
    "schemas": {
      "Limit": {"type": "integer", "minimum": 1},
      "Quote": {
        "type": "object",
        "required": ["text"],
        "properties": {
          "text": {"type": "string"},
          "mood": {"type": "string", "x-extensible-enum": ["dry", "warm"]},
          "at": {"type": "string", "format": "date-time"},
          "source": {"type": "string", "format": "uri"},
          "number": {"type": "integer"}
        }
      }
    }
  }
}`

func read(t *testing.T) *openapitest.Document {
	t.Helper()
	d, err := openapitest.Read([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRead(t *testing.T) {
	d := read(t)
	for _, tt := range []struct{ old, changed, why string }{
		{`{`, ``, "invalid character"},
		{`"3.1.0"`, `"3.0.3"`, "/openapi"},
		{`"title": "Quotes", `, ``, "missing property 'title'"},
		{`"title": "Quotes"`, `"title": "Quotes", "termsOfService": "a %"`, "is not valid uri"},
		{`"info"`, `"x-info"`, "missing property 'info'"},
		{`"description": "A list.", `, ``, "missing property 'description'"},
		{`"2XX"`, `"299X"`, "/responses/299X"},
		{`"requestBody": {"required"`, `"requestbody": {"required"`, "/put/requestbody"},
		{`"required": true, "schema": {"type": "string", "pattern"`, `"schema": {"type": "string", "pattern"`, "missing property 'required'"},
		{`"#/components/schemas/Limit"`, `"#/components/schemas/Limits"`, "leads nowhere"},
		{`"#/components/responses/Refused"`, `"https://example.com/refused.json"`, "leads nowhere"},
		{`"integer", "minimum": 1`, `"int", "minimum": 1`, "/type"},
		{`"pattern": "^quo_"`, `"pattern": "("`, "regex"},
		{`"minimum": 0`, `"minimum": "0"`, "got string, want number"},
		{`"type": "object", "required": ["error"]`, `"type": "object", "required": "error"`, "got string, want array"},
		{`"/quotes/{id}"`, `"/quotes/{name}"`, "GET does not describe the parameter name"},
		{`"/quotes/latest"`, `"/quotes/latest/{id}"`, "GET does not describe the parameter id"},
		{`"in": "query", "schema"`, `"in": "cookie", "schema"`, "not compared"},
		{`"type": "string", "maxLength": 3`, `"type": "array"`, "not compared"},
		{`"type": "http", "scheme": "bearer"`, `"type": "apiKey", "in": "query", "name": "key"`, "not compared"},
		{`[{"bearer": []}]`, `[{"barer": []}]`, "barer is missing"},
		{`"quoted": {"post"`, `"quoted": {"put"`, "no method post"},
	} {
		if !strings.Contains(document, tt.old) {
			t.Fatalf("the document has no %s", tt.old)
		}
		_, err := openapitest.Read([]byte(strings.Replace(document, tt.old, tt.changed, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v, want %q", tt.changed, err, tt.why)
		}
	}
	if len(d.Operations) != 4 || len(d.Events) != 1 {
		t.Errorf("%d operations and %d events, want 4 and 1", len(d.Operations), len(d.Events))
	}
}

func TestFind(t *testing.T) {
	d := read(t)
	for _, tt := range []struct{ method, path, want string }{
		{"GET", "/api/quotes/quo_1", "/quotes/{id}"},
		{"GET", "/api/quotes/a%2Fb", "/quotes/{id}"},
		{"PUT", "/api/quotes/latest", ""},
		{"GET", "/api/quotes/latest", "/quotes/latest"},
		{"DELETE", "/api/quotes/quo_1", ""},
		{"GET", "/api/quotes/", ""},
		{"GET", "/api/quotes", ""},
		{"GET", "/api/quotes/quo_1/x", ""},
		{"GET", "/quotes/quo_1", ""},
		{"GET", "/api/quote/quo_1", ""},
	} {
		got := ""
		if o := d.Find(tt.method, tt.path); o != nil {
			got = o.Path
		}
		if got != tt.want {
			t.Errorf("%s %s is of %q, want %q", tt.method, tt.path, got, tt.want)
		}
	}
	if o := d.Operation("PUT", "/quotes/{id}"); o == nil || d.Operation("POST", "/quotes/{id}") != nil {
		t.Errorf("by its template: %v", o)
	}
}

// held fails the test unless err names what is wrong, or is nil for "".
func held(t *testing.T, what string, err error, why string) {
	t.Helper()
	switch {
	case why == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case why != "" && (err == nil || !strings.Contains(err.Error(), why)):
		t.Errorf("%s: %v, want %q", what, err, why)
	}
}

func TestCheckRequest(t *testing.T) {
	d := read(t)
	const since = "since=2026-01-02T00:00:00Z"
	for _, tt := range []struct {
		method, target, body string
		header               []string
		why                  string
	}{
		{"GET", "/api/quotes/quo_1?" + since, "", nil, ""},
		{"GET", "/api/quotes/quo_1?limit=5&" + since, "", nil, ""},
		{"GET", "/api/quotes/quo_1?limit=123456789012345678901234567890&" + since, "", nil, ""},
		{"GET", "/api/quotes/q%75o_1?" + since, "", nil, ""},
		{"GET", "/api/quotes/1?" + since, "", nil, `the path parameter id is "1"`},
		{"GET", "/api/quotes/quo_1", "", nil, "the query parameter since is missing"},
		{"GET", "/api/quotes/quo_1?since=yesterday", "", nil, "'yesterday' is not valid date-time"},
		{"GET", "/api/quotes/quo_1?limit=0&" + since, "", nil, `limit is "0"`},
		{"GET", "/api/quotes/quo_1?limit=many&" + since, "", nil, `limit is "many"`},
		{"GET", "/api/quotes/quo_1?limit=1.5&" + since, "", nil, `limit is "1.5"`},
		{"GET", "/api/quotes/quo_1?limit=5&limit=x&" + since, "", nil, `limit is "x"`},
		{"GET", "/api/quotes/quo_1?%zz&other=1&" + since, "", nil, ""},
		{"GET", "/api/quotes/quo_1?" + since, "", []string{"X-Trace", "long"}, "the header parameter X-Trace"},
		{"GET", "/api/quotes/quo_1?" + since, "", []string{"Authorization", ""}, "the authorization is"},
		{"GET", "/api/quotes/quo_1?" + since, "", []string{"Authorization", "Basic x"}, "the authorization is"},
		{"GET", "/api/quotes/quo_1?" + since, "{}", nil, ""},
		{"POST", "/api/quotes/latest", "{}", nil, "the operation takes none"},
		{"POST", "/api/quotes/latest", "", nil, ""},
		{"POST", "/api/quotes/latest?at=noon", "", nil, `the query parameter at is "noon"`},
		{"GET", "/api/quotes/latest?at=noon", "", []string{"Authorization", ""}, ""},
		{"GET", "/api/quotes/latest", "", nil, "the query parameter at is missing"},
		{"PUT", "/api/quotes/quo_1", `{"text":"x"}`, nil, ""},
		{"PUT", "/api/quotes/quo_1", `{"text":"x"}`, []string{"Content-Type", "application/json; charset=utf-8"}, ""},
		{"PUT", "/api/quotes/quo_1", `{"text":"x"}`, []string{"Content-Type", "text/plain"}, "the content type is"},
		{"PUT", "/api/quotes/quo_1", `{"text":"x"}`, []string{"Content-Type", ""}, "the content type"},
		{"PUT", "/api/quotes/quo_1", ``, nil, "no body"},
		{"PUT", "/api/quotes/quo_1", `{"text":`, nil, "no JSON"},
		{"PUT", "/api/quotes/quo_1", `{"text":"x"} {}`, nil, "no JSON"},
		{"PUT", "/api/quotes/quo_1", `{}`, nil, "missing property 'text'"},
		{"PUT", "/api/quotes/quo_1", `{"text":"x","by":"y","mood":"odd"}`, nil, ""},
		{"PUT", "/api/quotes/quo_1", `null`, nil, "got null, want object"},
	} {
		req := httptest.NewRequest(tt.method, tt.target, nil)
		req.Header.Set("Authorization", "Bearer x")
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(tt.header); i += 2 {
			req.Header.Set(tt.header[i], tt.header[i+1])
			if tt.header[i+1] == "" {
				req.Header.Del(tt.header[i])
			}
		}
		held(t, tt.method+" "+tt.target+" "+tt.body, d.Find(tt.method, req.URL.EscapedPath()).CheckRequest(req, []byte(tt.body)), tt.why)
	}
	other := d.Operation("PUT", "/quotes/{id}")
	held(t, "of another operation", other.CheckRequest(httptest.NewRequest("GET", "/api/quotes/quo_1", nil), nil), "is not PUT")
}

func TestCheckResponse(t *testing.T) {
	get := read(t).Operation("GET", "/quotes/{id}")
	put := read(t).Operation("PUT", "/quotes/{id}")
	post := read(t).Operation("POST", "/quotes/latest")
	for _, tt := range []struct {
		of     *openapitest.Operation
		status int
		header string
		body   string
		why    string
	}{
		{get, 200, "5", `{"text":"x","at":"2026-01-02T00:00:00Z","source":"https://example.com/x","number":9007199254740993}`, ""},
		{get, 201, "5", `{"text":"x"}`, "has no status 201"},
		{get, 500, "5", `{"error":"x"}`, "has no status 500"},
		{get, 404, "", `{"error":"x"}`, ""},
		{get, 404, "", `{}`, "missing property 'error'"},
		{get, 200, "", `{"text":"x"}`, "the header parameter X-Left is missing"},
		{get, 200, "-1", `{"text":"x"}`, `X-Left is "-1"`},
		{get, 200, "few", `{"text":"x"}`, `X-Left is "few"`},
		{get, 200, "5 X-Replayed:false", `{"text":"x"}`, `X-Replayed is "false"`},
		{get, 200, "5 X-Replayed:true", `{"text":"x"}`, ""},
		{get, 200, "5 Content-Type:text/html", `{"text":"x"}`, "the content type is"},
		{get, 200, "5", ``, "no JSON"},
		{get, 200, "5", `{}`, "missing property 'text'"},
		{get, 200, "5", `{"text":1}`, "got number, want string"},
		{get, 200, "5", `{"text":"x","number":1.5}`, "want integer"},
		{get, 200, "5", `{"text":"x","more":1}`, "additional properties 'more'"},
		{get, 200, "5", `{"text":"x","mood":"warm"}`, ""},
		{get, 200, "5", `{"text":"x","mood":"odd"}`, "value must be one of 'dry', 'warm'"},
		{get, 200, "5", `{"text":"x","at":"2026-01-02 00:00"}`, "is not valid date-time"},
		{get, 200, "5", `{"text":"x","source":"not one"}`, "is not valid uri"},
		{put, 204, "", ``, ""},
		{post, 503, "", `{"error":"x"}`, ""},
		{post, 503, "", `{}`, "missing property 'error'"},
		{put, 204, "", `{}`, "the document has none"},
	} {
		header := http.Header{"Content-Type": {"application/json"}}
		for i, field := range strings.Fields(tt.header) {
			if name, value, found := strings.Cut(field, ":"); found {
				header.Set(name, value)
			} else if i == 0 {
				header.Set("X-Left", field)
			}
		}
		held(t, tt.header+" "+tt.body, tt.of.CheckResponse(tt.status, header, []byte(tt.body)), tt.why)
	}
}

func TestEvent(t *testing.T) {
	quoted := read(t).Events["quoted"]
	req := httptest.NewRequest("POST", "/anywhere", nil)
	req.Header.Set("Content-Type", "application/json")
	held(t, "without the header", quoted.CheckRequest(req, []byte(`{"text":"x"}`)), "X-Event is missing")
	req.Header.Set("X-Event", "quoted")
	held(t, "with it", quoted.CheckRequest(req, []byte(`{"text":"x"}`)), "")
	held(t, "another body", quoted.CheckRequest(req, []byte(`{"text":true}`)), "got boolean, want string")
	held(t, "an unnamed field", quoted.CheckRequest(req, []byte(`{"text":"x","more":1}`)), "additional properties 'more'")
}

func TestExamplesAndReferences(t *testing.T) {
	d := read(t)
	media := d.Operation("GET", "/quotes/{id}").Responses["200"].Content["application/json"]
	held(t, "the example", media.Schema.CheckValue(media.Examples["one"]), "")
	if media.Schema.CheckValue("x") == nil {
		t.Error("a text fits a schema of objects")
	}
	later := map[string]any{"text": "x", "more": "y", "mood": "odd"}
	held(t, "what a later version may write", media.Schema.CheckLater(later), "")
	held(t, "the same of this version", media.Schema.CheckValue(later), "additional properties 'more'")
	if quote := d.Follow(media.Schema.Value); quote["type"] != "object" {
		t.Errorf("followed to %v", quote)
	}
	if nowhere := d.Follow(map[string]any{"$ref": "#/components/nothing"}); nowhere != nil {
		t.Errorf("followed to %v", nowhere)
	}
}
