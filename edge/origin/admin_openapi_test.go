package origin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"partneredge/edge/adminapi"
	"partneredge/edge/openapitest"
	"partneredge/store"
)

// contract is openapi.json, and which of its answers a test has seen.
type contract struct {
	document *openapitest.Document

	mu   sync.Mutex
	seen map[string]bool // "POST /accounts 201"

	routes *http.ServeMux // knows the pattern of a request
}

func readDocument(t *testing.T) *openapitest.Document {
	t.Helper()
	document, err := openapitest.Read(adminapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// adminRoute is a route of the admin API.
type adminRoute struct {
	pattern      string // as of http.ServeMux
	method, path string // the path with x for each parameter
	role         store.Role
}

// adminRoutes returns every route, by openapi.json, with the least role that it asks for.
func adminRoutes(t *testing.T) (all []adminRoute) {
	t.Helper()
	for _, o := range readDocument(t).Operations {
		path := "/admin/v1" + o.Path
		r := adminRoute{
			pattern: o.Method + " " + path, method: o.Method, role: store.RoleOperator,
			path: strings.NewReplacer("{id}", "x", "{deal_id}", "x", "{goal_id}", "x").Replace(path),
		}
		switch {
		case slices.Contains(adminsOnly, r.pattern):
			r.role = store.RoleAdmin
		case r.method == http.MethodGet:
			r.role = store.RoleViewer
		}
		all = append(all, r)
	}
	return all
}

// adminsOnly are the routes that nobody but an admin may use.
var adminsOnly = []string{
	"GET /admin/v1/tokens", "POST /admin/v1/tokens", "POST /admin/v1/tokens/{id}/revoke",
	"POST /admin/v1/nodes", "POST /admin/v1/nodes/{id}/revoke", "DELETE /admin/v1/nodes/{id}",
	"POST /admin/v1/regions", "POST /admin/v1/regions/{id}/revoke",
	"GET /admin/v1/accounts/{id}/export", "DELETE /admin/v1/accounts/{id}", "POST /admin/v1/tombstones",
}

func readContract(t *testing.T) *contract {
	t.Helper()
	document := readDocument(t)
	routes := http.NewServeMux()
	for _, r := range adminRoutes(t) {
		routes.Handle(r.pattern, http.NotFoundHandler())
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
