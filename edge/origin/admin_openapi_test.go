package origin

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin"
)

// contract is openapi.json, and which of its answers a test has seen.
type contract struct {
	model *v3.Document
	judge validator.Validator

	mu   sync.Mutex
	seen map[string]bool // "POST /accounts 201"

	routes *http.ServeMux // knows the pattern of a request
}

func readContract(t *testing.T) *contract {
	t.Helper()
	doc, err := libopenapi.NewDocument(adminapi.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	judge, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	routes := http.NewServeMux()
	for _, r := range admin.Routes() {
		routes.Handle(r.Pattern, http.NotFoundHandler())
	}
	return &contract{model: &model.Model, judge: judge, seen: make(map[string]bool), routes: routes}
}

// documented are all answers that the document names.
func (c *contract) documented() map[string]bool {
	all := make(map[string]bool)
	for path, item := range c.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			for status := range op.Responses.Codes.FromOldest() {
				all[strings.ToUpper(method)+" "+path+" "+status] = true
			}
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
	req = req.Clone(t.Context())
	req.Body = io.NopCloser(bytes.NewReader(sent))
	if len(sent) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	response := &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(answered)), Request: req}
	if good, problems := c.judge.ValidateHttpResponse(req, response); !good {
		for _, p := range problems {
			t.Errorf("%s answered %d %s: %s: %s %v", pattern, status, answered, p.Message, p.Reason, reasons(p.SchemaValidationErrors))
		}
	}
	if status >= 300 {
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(sent))
	if good, problems := c.judge.ValidateHttpRequest(req); !good {
		for _, p := range problems {
			t.Errorf("%s took %s: %s: %s %v", pattern, sent, p.Message, p.Reason, reasons(p.SchemaValidationErrors))
		}
	}
}

func reasons[E any](list []E) (out []string) {
	for _, e := range list {
		out = append(out, fmt.Sprintf("%+v", e))
	}
	return out
}

func TestOpenAPINamesEveryRoute(t *testing.T) {
	c := readContract(t)
	if good, problems := c.judge.ValidateDocument(); !good {
		for _, p := range problems {
			t.Errorf("%s: %s %v", p.Message, p.Reason, reasons(p.SchemaValidationErrors))
		}
	}
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
