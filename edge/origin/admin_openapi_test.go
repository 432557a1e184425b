package origin

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"partneredge/edge/adminapi"
	"partneredge/edge/openapitest"
	"partneredge/edge/origin/admin"
)

// contract is openapi.json, and which of its answers a test has seen.
type contract struct {
	document *openapitest.Document

	mu   sync.Mutex
	seen map[string]bool // "POST /accounts 201"

	routes *http.ServeMux // knows the pattern of a request
}

func readContract(t *testing.T) *contract {
	t.Helper()
	document, err := openapitest.Read(adminapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	routes := http.NewServeMux()
	for _, r := range admin.Routes() {
		routes.Handle(r.Pattern, http.NotFoundHandler())
	}
	return &contract{document: document, seen: make(map[string]bool), routes: routes}
}

// documented are all answers that the document names.
func (c *contract) documented() map[string]bool {
	all := make(map[string]bool)
	for _, o := range c.document.Operations {
		for status := range o.Responses {
			all[o.Method+" "+o.Path+" "+status] = true
		}
	}
	return all
}

// check holds an exchange to the document: the answer always, the request when
// it was taken. pattern is the route that served it, "" for none.
func (c *contract) check(t *testing.T, pattern string, req *http.Request, sent []byte, status int, header http.Header, answered []byte) {
	t.Helper()
	if pattern == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[strings.Replace(pattern, "/admin/v1", "", 1)+" "+fmt.Sprint(status)] = true
	operation := c.document.Find(req.Method, req.URL.EscapedPath())
	if operation == nil {
		t.Errorf("%s answered %d, and is not in openapi.json", pattern, status)
		return
	}
	if err := operation.CheckResponse(status, header, answered); err != nil {
		t.Errorf("%s answered %d %s: %v", pattern, status, answered, err)
	}
	if status >= 300 {
		return
	}
	req = req.Clone(t.Context())
	if len(sent) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := operation.CheckRequest(req, sent); err != nil {
		t.Errorf("%s took %s: %v", pattern, sent, err)
	}
}

func TestOpenAPINamesEveryRoute(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	documented := make(map[string]bool)
	for answer := range c.documented() {
		documented[answer[:strings.LastIndexByte(answer, ' ')]] = true
	}
	served := make(map[string]bool)
	for _, r := range admin.Routes() {
		served[strings.Replace(r.Pattern, "/admin/v1", "", 1)] = true
	}
	for _, route := range slices.Sorted(maps.Keys(served)) {
		if !documented[route] {
			t.Errorf("%s is served and not in openapi.json", route)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(documented)) {
		if !served[route] {
			t.Errorf("%s is in openapi.json and not served", route)
		}
	}
}
