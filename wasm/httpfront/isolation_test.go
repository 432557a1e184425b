package httpfront_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"partneredge/wasm/abi"
)

// TestHeadersAreCopied checks that no header shares the memory of a module's
// response: net/http writes the headers of a short answer after ServeHTTP has
// returned, when another request may use that memory.
func TestHeadersAreCopied(t *testing.T) {
	respond := func(req *abi.Request, resp *abi.Response, handler string) error {
		frame := (&abi.Response{Status: 200, Handler: handler, Body: []byte(req.Query),
			Headers: []abi.Header{{Name: "X-By-" + handler, Value: req.Query}, {Name: "allow", Value: req.Query}}}).Append(nil)
		return resp.ParseCopy(frame)
	}
	front := newFront(
		func(req *abi.Request, resp *abi.Response) error { return respond(req, resp, "echo") },
		func(req *abi.Request, resp *abi.Response) error { return respond(req, resp, "none") }, nil)
	answers := map[string]*httptest.ResponseRecorder{}
	for _, mark := range strings.Fields("aaaa bbbb cccc dddd eeee ffff gggg hhhh iiii jjjj kkkk llll") {
		answers[mark] = httptest.NewRecorder()
		front.ServeHTTP(answers[mark], httptest.NewRequest("GET", "/?"+mark, nil))
	}
	for mark, w := range answers {
		h := w.Header()
		if h.Get("X-By-Echo") != mark || h.Get("X-By-None") != mark || strings.Join(h["Allow"], " ") != mark+" "+mark || w.Body.String() != mark {
			t.Errorf("%s: answered %q with headers %v", mark, w.Body, h)
		}
	}
}
