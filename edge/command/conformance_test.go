package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	valerrors "github.com/pb33f/libopenapi-validator/errors"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"

	"partneredge/edge/node/openapi"
	"partneredge/wasm/contract"
)

// conformance holds exchanges against the OpenAPI document: an answer must be
// one that the document names, of the shape it draws, and a request that was
// granted must be one that it allows.
type conformance struct {
	validator validator.Validator
	model     *v3.Document

	mu   sync.Mutex // also held while validating: the library is not made to be shared
	seen map[exchange]bool
}

// exchange is an operation and a status that it may answer.
type exchange struct{ method, path, status string }

func (e exchange) String() string { return e.method + " " + e.path + " " + e.status }

func newConformance(t *testing.T) *conformance {
	t.Helper()
	doc, err := libopenapi.NewDocument(openapi.Document())
	if err != nil {
		t.Fatal(err)
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	v, errs := validator.NewValidator(doc, config.WithFormatAssertions())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &conformance{validator: v, model: &model.Model, seen: map[exchange]bool{}}
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
	for path, item := range c.model.Paths.PathItems.FromOldest() {
		for method, op := range item.GetOperations().FromOldest() {
			for status := range op.Responses.Codes.FromOldest() {
				all = append(all, exchange{strings.ToUpper(method), path, status})
			}
		}
	}
	return all
}

// operation finds the document's path for an escaped one that was asked for, and
// whether it has the method. A path without {id} goes before one with it.
func (c *conformance) operation(method, path string) (template string, found bool) {
	item, literal := c.model.Paths.PathItems.Get(path)
	if template = path; !literal {
		for candidate, other := range c.model.Paths.PathItems.FromOldest() {
			if fits(candidate, path) {
				template, item = candidate, other
			}
		}
	}
	if item == nil {
		return "", false
	}
	for m := range item.GetOperations().FromOldest() {
		found = found || strings.EqualFold(m, method)
	}
	return template, found
}

// fits reports whether path is template with one segment in place of {id}, which
// may be missing.
func fits(template, path string) bool {
	before, after, found := strings.Cut(template, "{id}")
	rest, ok := strings.CutPrefix(path+"/", before)
	return found && ok && after == "" && !strings.Contains(strings.TrimSuffix(rest, "/"), "/")
}

// observe checks one exchange. It is made for contract.Target.
func (c *conformance) observe(t testing.TB, x contract.Exchange) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check(t, x.Request, x.RequestBody, x.Response, x.ResponseBody)
}

func (c *conformance) check(t testing.TB, req *http.Request, sent []byte, resp *http.Response, got []byte) {
	t.Helper()
	what := fmt.Sprintf("%s %s -> %d", req.Method, req.URL.RequestURI(), resp.StatusCode)
	template, found := c.operation(req.Method, req.URL.EscapedPath())
	if !found {
		c.checkUnnamed(t, what, resp, got)
		return
	}
	e := exchange{req.Method, template, fmt.Sprint(resp.StatusCode)}
	if !slices.Contains(c.named(), e) {
		t.Errorf("%s: the document does not name this status", what)
		return
	}
	c.seen[e] = true

	// The library finds no operation for an odd {id}, and knows integers of 64
	// bits only: it is shown others.
	shown := req.Clone(req.Context())
	if prefix, found := strings.CutSuffix(template, "{id}"); found {
		shown.URL.Path, shown.URL.RawPath = prefix+"whs_0", ""
	}
	shown.URL.RawQuery = manyDigits.ReplaceAllString(req.URL.RawQuery, "1")
	resp.Body = io.NopCloser(bytes.NewReader(got))
	if ok, problems := c.validator.ValidateHttpResponse(shown, resp); !ok {
		t.Errorf("%s: the answer is not what the document draws: %s\n%s", what, explain(problems), got)
	}
	if resp.StatusCode/100 != 2 {
		if len(got) > 0 && !c.exemplified(e, got) {
			t.Errorf("%s: the document has no example of this refusal: %s", what, got)
		}
		return
	}
	shown.Body = io.NopCloser(bytes.NewReader(withoutOddEvents(sent)))
	if len(sent) > 0 && shown.Header.Get("Content-Type") == "" {
		shown.Header.Set("Content-Type", "application/json") // the service does not ask for it
	}
	if ok, problems := c.validator.ValidateHttpRequestSync(shown); !ok {
		t.Errorf("%s: granted, though the document does not allow the request: %s\n%s", what, explain(problems), sent)
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
func (c *conformance) exemplified(e exchange, got []byte) bool {
	type refusal struct{ Error, Reason string }
	var answered refusal
	if err := json.Unmarshal(got, &answered); err != nil {
		return false
	}
	for method, op := range c.model.Paths.PathItems.GetOrZero(e.path).GetOperations().FromOldest() {
		if !strings.EqualFold(method, e.method) {
			continue
		}
		for _, content := range op.Responses.Codes.GetOrZero(e.status).Content.FromOldest() {
			for _, example := range content.Examples.FromOldest() {
				var shown refusal
				if err := example.Value.Decode(&shown); err == nil && shown == answered {
					return true
				}
			}
		}
	}
	return false
}

// checkUnnamed is for paths and methods that the document does not have: it says
// in its description how they are answered.
func (c *conformance) checkUnnamed(t testing.TB, what string, resp *http.Response, got []byte) {
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
	if resp.StatusCode == 405 && resp.Header.Get("Allow") == "" {
		t.Errorf("%s: no Allow", what)
	}
}

var manyDigits = regexp.MustCompile(`\d{19,}`)

func explain(problems []*valerrors.ValidationError) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "\n  %s: %s", p.Message, p.Reason)
		for _, s := range p.SchemaValidationErrors {
			fmt.Fprintf(&b, "\n    %s: %s", s.FieldPath, s.Reason)
		}
	}
	return b.String()
}
