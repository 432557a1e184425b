package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
	"github.com/pb33f/libopenapi/orderedmap"

	"partneredge/edge/adminapi"
	"partneredge/edge/node/openapi"
)

func model(t *testing.T) (libopenapi.Document, *v3.Document) {
	t.Helper()
	doc, err := libopenapi.NewDocument(openapi.Document())
	if err != nil {
		t.Fatal(err)
	}
	m, err := doc.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	return doc, &m.Model
}

func TestDocumentIsValid(t *testing.T) {
	doc, _ := model(t)
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, problems := v.ValidateDocument(); !ok {
		for _, p := range problems {
			t.Errorf("%s: %s", p.Message, p.Reason)
			for _, s := range p.SchemaValidationErrors {
				t.Errorf("  %s: %s", s.FieldPath, s.Reason)
			}
		}
	}
}

// TestExamples checks each example in the document against the schema beside it.
func TestExamples(t *testing.T) {
	_, m := model(t)
	check := schema_validation.NewSchemaValidator(config.WithFormatAssertions())
	seen := 0
	media := func(where string, content *orderedmap.Map[string, *v3.MediaType]) {
		for kind, c := range content.FromOldest() {
			for name, example := range c.Examples.FromOldest() {
				seen++
				t.Run(where+" "+kind+" "+name, func(t *testing.T) {
					var value any
					if err := example.Value.Decode(&value); err != nil {
						t.Fatal(err)
					}
					valid(t, check, c.Schema.Schema(), value)
				})
			}
		}
	}
	operation := func(where string, op *v3.Operation) {
		if op.RequestBody != nil {
			media(where+" request", op.RequestBody.Content)
		}
		for status, r := range op.Responses.Codes.FromOldest() {
			if r.Content != nil {
				media(where+" "+status, r.Content)
			}
		}
	}
	for path, item := range m.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			operation(method+" "+path, op)
		}
	}
	for name, item := range m.Webhooks.FromOldest() {
		operation("event "+name, item.Post)
	}
	if seen < 20 {
		t.Errorf("%d examples found, want 20 at least", seen)
	}
}

// TestEveryAnswerHasAnExample holds that each body in the document is shown, and each
// refusal with every reason that its schema names.
func TestEveryAnswerHasAnExample(t *testing.T) {
	_, m := model(t)
	answer := func(where string, r *v3.Response) {
		if r.Content == nil {
			return
		}
		for _, c := range r.Content.FromOldest() {
			if c.Examples.Len() == 0 {
				t.Errorf("%s has no example", where)
			}
			var shown []string
			for _, e := range c.Examples.FromOldest() {
				var value struct{ Error, Reason string }
				if err := e.Value.Decode(&value); err != nil {
					t.Fatal(err)
				}
				shown = append(shown, value.Error+" "+value.Reason)
			}
			for _, want := range refusals(c.Schema.Schema()) {
				if !slices.Contains(shown, want) {
					t.Errorf("%s has no example of %s", where, want)
				}
			}
		}
	}
	for path, item := range m.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			for status, r := range op.Responses.Codes.FromOldest() {
				answer(method+" "+path+" "+status, r)
			}
		}
	}
}

// refusals returns "error reason" of each body that a schema of errors allows.
func refusals(s *base.Schema) (all []string) {
	for _, one := range s.OneOf {
		all = append(all, refusals(one.Schema())...)
	}
	if s.Properties == nil {
		return all
	}
	code := s.Properties.GetOrZero("error")
	if code == nil {
		return all
	}
	reason := s.Properties.GetOrZero("reason")
	if reason == nil {
		return append(all, code.Schema().Const.Value+" ")
	}
	if one := reason.Schema().Const; one != nil {
		return append(all, code.Schema().Const.Value+" "+one.Value)
	}
	for _, one := range reason.Schema().Enum {
		all = append(all, code.Schema().Const.Value+" "+one.Value)
	}
	return all
}

// TestNoKeyTwice holds both documents to objects without a key that is there twice:
// encoding/json takes the last, other readers refuse the document.
func TestNoKeyTwice(t *testing.T) {
	for name, document := range map[string][]byte{"partner": openapi.Document(), "admin": adminapi.OpenAPI()} {
		d := json.NewDecoder(bytes.NewReader(document))
		var path []string
		var value, object func()
		value = func() {
			token, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			switch token {
			case json.Delim('{'):
				object()
			case json.Delim('['):
				path = append(path, "[]")
				for d.More() {
					value()
				}
				_, _ = d.Token()
				path = path[:len(path)-1]
			}
		}
		object = func() {
			seen := map[any]bool{}
			for d.More() {
				key, err := d.Token()
				if err != nil {
					t.Fatal(err)
				}
				if seen[key] {
					t.Errorf("%s: %v has %v twice", name, path, key)
				}
				seen[key] = true
				path = append(path, fmt.Sprint(key))
				value()
				path = path[:len(path)-1]
			}
			_, _ = d.Token()
		}
		value()
	}
}

func valid(t *testing.T, check schema_validation.SchemaValidator, schema *base.Schema, value any) {
	t.Helper()
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if ok, problems := check.ValidateSchemaBytesWithVersion(schema, b, 3.1); !ok {
		for _, p := range problems {
			t.Errorf("%s: %s\n%s", p.Message, p.Reason, b)
			for _, s := range p.SchemaValidationErrors {
				t.Errorf("  %s: %s", s.FieldPath, s.Reason)
			}
		}
	}
}

func TestEventsOfTheDocument(t *testing.T) {
	_, m := model(t)
	want := []string{
		"agent.coaching_insight_created", "sentinel.fired", "deal.stage_changed",
		"client.contacted", "goal.pace_changed",
	}
	if got := m.Webhooks.Len(); got != len(want) {
		t.Errorf("%d webhooks, want %d", got, len(want))
	}
	for _, name := range want {
		item := m.Webhooks.GetOrZero(name)
		if item == nil || item.Post == nil {
			t.Errorf("no webhook %s", name)
			continue
		}
		if got := len(item.Post.Parameters); got != 5 {
			t.Errorf("%s: %d headers, want 5", name, got)
		}
	}
}

func TestHandler(t *testing.T) {
	h := openapi.Handler()
	tests := []struct {
		method, path string
		status       int
		kind         string
		contains     string
	}{
		{"GET", "/api/v2/public/openapi.json", 200, "application/json", `"openapi": "3.1.0"`},
		{"GET", "/docs", 200, "text/html; charset=utf-8", "swagger-ui"},
		{"GET", "/docs/", 200, "text/html; charset=utf-8", "swagger-ui"},
		{"GET", "/docs/swagger-ui.css", 200, "text/css; charset=utf-8", "swagger"},
		{"GET", "/docs/swagger-ui-bundle.js", 200, "application/javascript", "SwaggerUI"},
		{"GET", "/docs/swagger-ui-standalone-preset.js", 200, "application/javascript", "Standalone"},
		{"GET", "/docs/nothing.js", 404, "", ""},
		{"GET", "/elsewhere", 404, "application/json", `{"error":"not_found"}`},
		{"POST", "/docs", 405, "application/json", `{"error":"method_not_allowed"}`},
		{"DELETE", "/api/v2/public/openapi.json", 405, "application/json", `{"error":"method_not_allowed"}`},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			if got := w.Header().Get("Content-Type"); tt.kind != "" && got != tt.kind {
				t.Errorf("content type %q, want %q", got, tt.kind)
			}
			if !strings.Contains(w.Body.String(), tt.contains) {
				t.Errorf("no %q in the body", tt.contains)
			}
			if tt.status == 405 && w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("Allow: %q", w.Header().Get("Allow"))
			}
		})
	}
}

func TestDocumentIsCached(t *testing.T) {
	h := openapi.Handler()
	first := httptest.NewRecorder()
	h.ServeHTTP(first, httptest.NewRequest("GET", openapi.DocumentPath, nil))
	again := httptest.NewRequest("GET", openapi.DocumentPath, nil)
	again.Header.Set("If-None-Match", first.Header().Get("ETag"))
	second := httptest.NewRecorder()
	h.ServeHTTP(second, again)
	if second.Code != http.StatusNotModified || second.Body.Len() != 0 {
		t.Errorf("status %d with %d bytes, want 304 with none", second.Code, second.Body.Len())
	}
}

// TestPageIsSelfContained holds that the page loads only what is below /docs,
// and that its policy lets in each script written in it.
func TestPageIsSelfContained(t *testing.T) {
	h := openapi.Handler()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/docs", nil))
	page := w.Body.String()
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) < 3 {
		t.Fatalf("%d links found", len(links))
	}
	for _, l := range links {
		if !strings.HasPrefix(l[1], "/docs/") {
			t.Errorf("the page loads %s", l[1])
		}
	}
	policy := w.Header().Get("Content-Security-Policy")
	hashes := strings.Count(policy, "'sha256-")
	if scripts := strings.Count(page, "<script>"); hashes != scripts || scripts == 0 {
		t.Errorf("%d scripts in the page, %d in the policy", scripts, hashes)
	}
	if strings.Contains(policy, "script-src 'self' 'unsafe") {
		t.Error("the policy lets any script in")
	}
}

func ExampleServes() {
	fmt.Println(openapi.Serves("/docs"), openapi.Serves("/docs/swagger-ui.css"), openapi.Serves("/document"))
	// Output: true true false
}
