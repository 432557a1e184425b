package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"partneredge/edge/node/openapi"
	"partneredge/edge/openapitest"
	"partneredge/wasm/contract"
)

// conformance holds exchanges against the OpenAPI document: an answer must be
// one that the document names, of the shape it draws, and a request that was
// granted must be one that it allows.
type conformance struct {
	document *openapitest.Document

	mu   sync.Mutex
	seen map[exchange]bool
}

// exchange is an operation and a status that it may answer.
type exchange struct{ method, path, status string }

func (e exchange) String() string { return e.method + " " + e.path + " " + e.status }

func newConformance(t *testing.T) *conformance {
	t.Helper()
	document, err := openapitest.Read(openapi.Document())
	if err != nil {
		t.Fatal(err)
	}
	return &conformance{document: document, seen: map[exchange]bool{}}
}

// unexercised lists what the document names and no test has met.
func (c *conformance) unexercised() (missing []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.named() {
		if !c.seen[e] {
			missing = append(missing, e.String())
		}
	}
	slices.Sort(missing)
	return missing
}

// named is each operation and status in the document.
func (c *conformance) named() (all []exchange) {
	for _, o := range c.document.Operations {
		for status := range o.Responses {
			all = append(all, exchange{o.Method, o.Path, status})
		}
	}
	return all
}

// operation finds the document's operation of a method and an escaped path. An {id}
// that is missing belongs to the operation that wants it.
func (c *conformance) operation(method, path string) *openapitest.Operation {
	if o := c.document.Find(method, path); o != nil {
		return o
	}
	return c.document.Operation(method, strings.TrimSuffix(path, "/")+"/{id}")
}

// observe checks one exchange. It is made for contract.Target.
func (c *conformance) observe(t testing.TB, x contract.Exchange) {
	t.Helper()
	c.check(t, x.Request, x.RequestBody, x.Response, x.ResponseBody)
}

func (c *conformance) check(t testing.TB, req *http.Request, sent []byte, resp *http.Response, got []byte) {
	t.Helper()
	what := fmt.Sprintf("%s %s -> %d", req.Method, req.URL.RequestURI(), resp.StatusCode)
	operation := c.operation(req.Method, req.URL.EscapedPath())
	if operation == nil {
		c.checkUnnamed(t, what, req.URL.EscapedPath(), resp, got)
		return
	}
	if err := operation.CheckResponse(resp.StatusCode, resp.Header, got); err != nil {
		t.Errorf("%s: the answer is not what the document draws: %v\n%s", what, err, got)
	}
	c.mu.Lock()
	c.seen[exchange{operation.Method, operation.Path, fmt.Sprint(resp.StatusCode)}] = true
	c.mu.Unlock()
	if resp.StatusCode/100 != 2 {
		if len(got) > 0 && !exemplified(operation, resp.StatusCode, got) {
			t.Errorf("%s: the document has no example of this refusal: %s", what, got)
		}
		return
	}
	granted := req.Clone(req.Context())
	if len(sent) > 0 && granted.Header.Get("Content-Type") == "" {
		granted.Header.Set("Content-Type", "application/json") // the service does not ask for it
	}
	if err := operation.CheckRequest(granted, withoutOddEvents(sent)); err != nil {
		t.Errorf("%s: granted, though the document does not allow the request: %v\n%s", what, err, sent)
	}
}

// withoutOddEvents returns a body without members of events that are not text. The
// service drops them as it drops names that it does not know; the document does not
// offer them, so that clients made from it have a list of text.
func withoutOddEvents(body []byte) []byte {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		return body
	}
	events, ok := object["events"].([]any)
	if !ok {
		return body
	}
	object["events"] = slices.DeleteFunc(events, func(e any) bool {
		_, isText := e.(string)
		return !isText
	})
	changed, err := json.Marshal(object)
	if err != nil {
		return body
	}
	return changed
}

// exemplified reports whether the document shows a refusal with this error and reason
// among an operation's examples.
func exemplified(o *openapitest.Operation, status int, got []byte) bool {
	var answered map[string]any
	response := o.Response(status)
	if err := json.Unmarshal(got, &answered); err != nil || response == nil {
		return false
	}
	for _, content := range response.Content {
		for _, example := range content.Examples {
			shown, _ := example.(map[string]any)
			if shown["error"] == answered["error"] && shown["reason"] == answered["reason"] {
				return true
			}
		}
	}
	return false
}

// checkUnnamed is for paths and methods that the document does not have: it says
// in its description how they are answered. A path without its {id} counts as named.
func (c *conformance) checkUnnamed(t testing.TB, what, path string, resp *http.Response, got []byte) {
	t.Helper()
	allowed := map[int][]string{
		401: {"unauthorized"},
		403: {"forbidden", "too_many_failed_attempts", "cors_not_allowed"},
		404: {"not_found"},
		405: {"method_not_allowed"},
		413: {"payload_too_large"},
		429: {"rate_limited"},
		500: {"internal_error"},
	}
	var body struct {
		Error string `json:"error"`
	}
	// An answer to HEAD has no body.
	if err := json.Unmarshal(got, &body); err != nil && len(got) > 0 {
		t.Errorf("%s: the answer is not JSON: %v", what, err)
	}
	if codes, ok := allowed[resp.StatusCode]; !ok || len(got) > 0 && !slices.Contains(codes, body.Error) {
		t.Errorf("%s: not an answer to a path or method that the document does not name: %s", what, got)
	}
	named := slices.ContainsFunc(c.document.Operations, func(o *openapitest.Operation) bool { return c.operation(o.Method, path) != nil })
	if resp.StatusCode == 404 && named || resp.StatusCode == 405 && !named {
		t.Errorf("%s: 404 is for paths that the document does not name, 405 for those that it does", what)
	}
	if resp.StatusCode == 405 && resp.Header.Get("Allow") == "" {
		t.Errorf("%s: no Allow", what)
	}
}

// noted counts the errors of a test within a test.
type noted struct {
	testing.TB
	errors int
}

func (n *noted) Helper()               {}
func (n *noted) Errorf(string, ...any) { n.errors++ }

// TestUnnamed expects 404 only where the document has no such path, and 405 only where it
// has, as it does where only the id is missing.
func TestUnnamed(t *testing.T) {
	c := newConformance(t)
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "nothing", 404}, {"GET", "agents/me/", 404}, {"DELETE", "webhooks//", 404}, {"GET", "webhooks/a/b", 404},
		{"POST", "agents/me", 405}, {"GET", "webhooks/whs_1", 405}, {"GET", "webhooks", 405}, {"POST", "webhooks/", 405},
	} {
		for _, status := range []int{404, 405} {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, "/api/v2/public/"+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			body := map[int]string{404: `{"error":"not_found"}`, 405: `{"error":"method_not_allowed"}`}[status]
			n := &noted{TB: t}
			c.check(n, req, nil, &http.Response{StatusCode: status, Header: http.Header{"Allow": {"GET"}}}, []byte(body))
			if good := status == tt.status; good != (n.errors == 0) {
				t.Errorf("%s %s answered %d: %d errors", tt.method, tt.path, status, n.errors)
			}
		}
	}
}
