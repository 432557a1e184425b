package httpfront_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"partneredge/wasm/abi"
)

// net/http writes a short answer's headers after ServeHTTP has returned, when
// what the request used may long be another's. Modules answer in memory that is
// used again, so no header may still lie in it by then.
func TestHeadersAreTheRequestsOwn(t *testing.T) {
	take := func(req *abi.Request, resp *abi.Response, handler string) error {
		frame := (&abi.Response{Status: 200, Handler: handler, Body: []byte(req.Query),
			Headers: []abi.Header{{Name: "X-By-" + handler, Value: req.Query}, {Name: "allow", Value: req.Query}}}).Append(nil)
		return resp.ParseCopy(frame)
	}
	s := newServer(
		func(req *abi.Request, resp *abi.Response) error { return take(req, resp, "echo") },
		func(req *abi.Request, resp *abi.Response) error { return take(req, resp, "none") }, nil)
	answers := map[string]*httptest.ResponseRecorder{}
	for _, mark := range strings.Fields("aaaa bbbb cccc dddd eeee ffff gggg hhhh iiii jjjj kkkk llll") {
		answers[mark] = httptest.NewRecorder()
		s.ServeHTTP(answers[mark], httptest.NewRequest("GET", "/?"+mark, nil))
	}
	for mark, w := range answers {
		h := w.Header()
		if h.Get("X-By-Echo") != mark || h.Get("X-By-None") != mark || strings.Join(h["Allow"], " ") != mark+" "+mark || w.Body.String() != mark {
			t.Errorf("%s: answered %q with headers %v", mark, w.Body, h)
		}
	}
}
