package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"partneredge/edge/adminapi"
	"partneredge/edge/node/openapi"
	"partneredge/edge/openapitest"
	"partneredge/wasm/answer"
)

// document is what nodes serve; that it can be read shows that it is valid.
func document(t *testing.T) *openapitest.Document {
	t.Helper()
	d, err := openapitest.Read(openapi.Document())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestExamples checks each example in the document against the schema beside it.
func TestExamples(t *testing.T) {
	d := document(t)
	seen := 0
	media := func(where string, content map[string]*openapitest.Media) {
		for kind, c := range content {
			for name, example := range c.Examples {
				seen++
				if err := c.Schema.CheckValue(example); err != nil {
					t.Errorf("%s %s %s: %v", where, kind, name, err)
				}
			}
		}
	}
	operation := func(where string, o *openapitest.Operation) {
		if o.Request != nil {
			media(where+" request", o.Request.Content)
		}
		for status, r := range o.Responses {
			media(where+" "+status, r.Content)
		}
	}
	for _, o := range d.Operations {
		operation(o.Method+" "+o.Path, o)
	}
	for name, o := range d.Events {
		operation("event "+name, o)
	}
	if seen < 20 {
		t.Errorf("%d examples found, want 20 at least", seen)
	}
}

// TestLaterAnswersFit adds a field to each object of the examples of answers and events, and
// puts values that there are not yet where the guide says that there may be: generated
// clients, which are held to the document, must take them.
func TestLaterAnswersFit(t *testing.T) {
	d := document(t)
	seen := 0
	later := func(where string, content map[string]*openapitest.Media) {
		for _, c := range content {
			for name, example := range c.Examples {
				seen++
				if err := c.Schema.CheckLater(withMore(example)); err != nil {
					t.Errorf("%s %s: %v", where, name, err)
				}
			}
		}
	}
	for _, o := range d.Operations {
		for status, r := range o.Responses {
			later(o.Method+" "+o.Path+" "+status, r.Content)
		}
	}
	for name, o := range d.Events {
		later("event "+name, o.Request.Content)
	}
	if seen < 20 {
		t.Errorf("%d examples found, want 20 at least", seen)
	}
}

// withMore returns a value as a later version of the service may write it.
func withMore(value any) any {
	switch value := value.(type) {
	case map[string]any:
		more := map[string]any{"a_later_field": true}
		for name, v := range value {
			switch more[name] = withMore(v); name {
			case "reason", "activation_mode":
				more[name] = "a_later_value"
			case "events":
				more[name] = []any{"a.later_event"}
			}
		}
		return more
	case []any:
		more := make([]any, len(value))
		for i, v := range value {
			more[i] = withMore(v)
		}
		return more
	}
	return value
}

// TestEveryAnswerHasAnExample holds that each body in the document is shown, and each
// refusal with every reason that its schema names.
func TestEveryAnswerHasAnExample(t *testing.T) {
	d := document(t)
	for _, o := range d.Operations {
		for status, r := range o.Responses {
			where := o.Method + " " + o.Path + " " + status
			for _, c := range r.Content {
				if len(c.Examples) == 0 {
					t.Errorf("%s has no example", where)
				}
				var shown []string
				for _, e := range c.Examples {
					value, _ := e.(map[string]any)
					code, _ := value["error"].(string)
					reason, _ := value["reason"].(string)
					shown = append(shown, code+" "+reason)
				}
				for _, want := range refusals(d, c.Schema.Value) {
					if !slices.Contains(shown, want) {
						t.Errorf("%s has no example of %s", where, want)
					}
				}
			}
		}
	}
}

// refusals returns "error reason" of each body that a schema of errors allows.
func refusals(d *openapitest.Document, schema any) (all []string) {
	s := d.Follow(schema)
	alternatives, _ := s["oneOf"].([]any)
	for _, one := range alternatives {
		all = append(all, refusals(d, one)...)
	}
	properties, _ := s["properties"].(map[string]any)
	if properties["error"] == nil {
		return all
	}
	code := fmt.Sprint(d.Follow(properties["error"])["const"])
	if properties["reason"] == nil {
		return append(all, code+" ")
	}
	reason := d.Follow(properties["reason"])
	reasons, _ := reason["x-extensible-enum"].([]any)
	for _, one := range reasons {
		all = append(all, fmt.Sprint(code, " ", one))
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

// TestCursorIsText holds next_cursor to the type and format of the parameter that it is
// sent back as: generators read times into types with fewer digits.
func TestCursorIsText(t *testing.T) {
	list := document(t).Operation("GET", "/api/v2/public/sentinels/firings")
	var cursor, next map[string]any
	for _, p := range list.Parameters {
		if p.Name == "cursor" {
			cursor, _ = p.Schema.Value.(map[string]any)
		}
	}
	page := document(t).Follow(list.Responses["200"].Content["application/json"].Schema.Value)
	properties, _ := page["properties"].(map[string]any)
	next, _ = properties["next_cursor"].(map[string]any)
	if want := []any{cursor["type"], "null"}; cursor["type"] != "string" || !reflect.DeepEqual(next["type"], want) || next["format"] != cursor["format"] {
		t.Errorf("cursor is %v %v, next_cursor %v %v", cursor["type"], cursor["format"], next["type"], next["format"])
	}
}

// TestAgeOfReads holds that the document has the header Age, which says by how much a read may
// be behind, at each answer that reads.
func TestAgeOfReads(t *testing.T) {
	for _, o := range document(t).Operations {
		for status, answer := range o.Responses {
			has := slices.ContainsFunc(answer.Headers, func(h *openapitest.Parameter) bool { return h.Name == "Age" && !h.Required })
			if reads := o.Method == "GET" && status == "200"; has != reads {
				t.Errorf("%s %s, %s: the document has Age: %t", o.Method, o.Path, status, has)
			}
		}
	}
}

func TestEventsOfTheDocument(t *testing.T) {
	events := document(t).Events
	want := []string{
		"agent.coaching_insight_created", "sentinel.fired", "deal.stage_changed",
		"client.contacted", "goal.pace_changed",
	}
	if len(events) != len(want) {
		t.Errorf("%d webhooks, want %d", len(events), len(want))
	}
	for _, name := range want {
		if events[name] == nil {
			t.Errorf("no webhook %s", name)
		} else if got := len(events[name].Parameters); got != 5 {
			t.Errorf("%s: %d headers, want 5", name, got)
		}
	}
}

// TestOlderEventsOfTheDocument holds that readers are told to ignore an older event only
// where it would put back a value of the same deal or goal: any other would be lost.
func TestOlderEventsOfTheDocument(t *testing.T) {
	replaces := map[string]string{"deal.stage_changed": "`deal_id`", "goal.pace_changed": "`goal_id`"}
	d := document(t)
	for name, event := range d.Events {
		envelope := d.Follow(event.Request.Content["application/json"].Schema.Value)
		properties, _ := envelope["properties"].(map[string]any)
		created, _ := properties["created_at"].(map[string]any)
		said := fmt.Sprint(created["description"])
		id := replaces[name]
		if id != "" && !strings.Contains(said, "ignore an older event of the same "+id) || id == "" && (strings.Contains(said, "ignore") || !strings.Contains(said, "keep each")) {
			t.Errorf("%s: its created_at says %s", name, said)
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
		{"GET", "/docs", 200, "text/html; charset=utf-8", "listInsights"},
		{"GET", "/docs/", 200, "text/html; charset=utf-8", "listInsights"},
		{"GET", "/docs/quickstart", 200, "text/html; charset=utf-8", "Fifteen minutes"},
		{"GET", "/docs/errors", 200, "text/html; charset=utf-8", `id="rate_limited"`},
		{"GET", "/docs/docs.css", 200, "text/css; charset=utf-8", ":root"},
		{"GET", "/docs/icon.svg", 200, "image/svg+xml", "<svg"},
		{"GET", "/docs/signature-vectors.json", 200, "application/json", `"tolerance_seconds": 300`},
		{"GET", "/docs/nothing.js", 404, "application/json", `{"error":"not_found"}`},
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

// TestPagesAreSelfContained holds that each page loads nothing from elsewhere, has no
// script, and leads only to what there is.
func TestPagesAreSelfContained(t *testing.T) {
	h := openapi.Handler()
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	pages := map[string]string{"/docs": get("/docs").Body.String()}
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	for _, l := range links.FindAllStringSubmatch(pages["/docs"], -1) {
		if path, _, _ := strings.Cut(l[1], "#"); strings.HasPrefix(path, "/docs/") && !strings.Contains(path, ".") {
			pages[path] = get(path).Body.String()
		}
	}
	if len(pages) != 13 {
		t.Errorf("%d pages, want the reference and 12 chapters", len(pages))
	}
	for at, page := range pages {
		if strings.Contains(page, "<script") || strings.Contains(page, " style=") {
			t.Errorf("%s has a script or a style of its own", at)
		}
		if !strings.Contains(page, `<link rel="icon"`) {
			t.Errorf("%s names no icon: browsers would ask for /favicon.ico", at)
		}
		for _, l := range links.FindAllStringSubmatch(page, -1) {
			path, id, _ := strings.Cut(l[1], "#")
			if path == "" {
				path = at
			}
			if w := get(path); w.Code != http.StatusOK {
				t.Errorf("%s leads to %s: %d", at, l[1], w.Code)
			} else if id != "" && !strings.Contains(w.Body.String(), `id="`+id+`"`) {
				t.Errorf("%s leads to %s, where there is no such part", at, l[1])
			}
		}
	}
}

// TestAnotherDocument renders a document with what modules may bring: an operation
// without tag, id, examples or answers that are described.
func TestAnotherDocument(t *testing.T) {
	h, err := openapi.NewHandler([]byte(`{"openapi":"3.1.0","info":{"title":"Other <API>","version":"1"},"paths":{"/x/{id}/y":{"put":{"summary":"Do <it>","responses":{"200":{}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/docs", nil))
	for _, want := range []string{`id="put-x--id--y"`, "Do &lt;it&gt;", "$EDGE_URL/x/$ID/y", "Other &lt;API&gt;"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("no %s in the page", want)
		}
	}
	for _, bad := range []string{"", "[]", "{", `{"a":`} {
		if _, err := openapi.NewHandler([]byte(bad)); err == nil {
			t.Errorf("%q was taken for a document", bad)
		}
	}
}

// TestRefusalsOfTheDocument holds the guide's table of errors and the document's
// examples to the same codes and reasons.
func TestRefusalsOfTheDocument(t *testing.T) {
	d := document(t)
	shown := map[string]bool{}
	for _, o := range d.Operations {
		for status, r := range o.Responses {
			if status < "400" {
				continue
			}
			for _, c := range r.Content {
				for _, refusal := range refusals(d, c.Schema.Value) {
					shown[status+" "+refusal] = true
				}
			}
		}
	}
	// A path or a method that the document does not have.
	shown["403 cors_not_allowed keys_do_not_belong_in_browsers"] = true
	shown["404 not_found "], shown["405 method_not_allowed "] = true, true
	for _, r := range answer.Refusals() {
		names := []string{""}
		if len(r.Reasons) > 0 {
			names = nil
			for _, reason := range r.Reasons {
				names = append(names, reason.Name)
			}
		}
		for _, name := range names {
			key := fmt.Sprintf("%d %s %s", r.Status, r.Code, name)
			if !shown[key] {
				t.Errorf("the table has %s, the document has not", key)
			}
			delete(shown, key)
		}
	}
	for key := range shown {
		t.Errorf("the document has %s, the table has not", key)
	}
}

func ExampleServes() {
	fmt.Println(openapi.Serves("/docs"), openapi.Serves("/docs/errors"), openapi.Serves("/document"))
	// Output: true true false
}
