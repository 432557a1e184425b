package httpfront_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/httpfront"
)

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		method string
		resp   abi.Response
		status int
		body   string
		header map[string][]string
	}{
		{"short", "GET", abi.Response{Status: 200, Body: []byte("{}")}, 200, "{}", map[string][]string{
			"Content-Type": {"application/json"}, "Content-Length": {"2"}, "Cache-Control": {"no-store"},
			"X-Content-Type-Options": {"nosniff"}, "X-Gate": {"1"}}},
		{"long", "GET", abi.Response{Status: 200, Body: bytes.Repeat([]byte("x"), 9999)}, 200, strings.Repeat("x", 9999), map[string][]string{
			"Content-Length": {"9999"}}},
		{"empty", "GET", abi.Response{Status: 404}, 404, "", map[string][]string{"Content-Length": {"0"}}},
		{"HEAD", "HEAD", abi.Response{Status: 405, Body: []byte("{}")}, 405, "", map[string][]string{"Content-Length": {"2"}}},
		{"no content", "GET", abi.Response{Status: 204, Body: []byte("{}")}, 204, "", map[string][]string{"Content-Length": nil}},
		{"type of its own", "GET", abi.Response{Status: 200, Headers: []abi.Header{{Name: "content-type", Value: "text/plain"}}}, 200, "",
			map[string][]string{"Content-Type": {"text/plain"}}},
		{"length of its own", "GET", abi.Response{Status: 200, Body: []byte("{}"), Headers: []abi.Header{{Name: "content-length", Value: "7"}}}, 200, "{}",
			map[string][]string{"Content-Length": {"2"}}},
		{"the gate's header again", "GET", abi.Response{Status: 200, Headers: []abi.Header{{Name: "x-gate", Value: "2"}, {Name: "x-other", Value: ""}}}, 200, "",
			map[string][]string{"X-Gate": {"1", "2"}, "X-Other": {""}}},
		{"the node's header", "GET", abi.Response{Status: 200, Headers: []abi.Header{{Name: "x-request-id", Value: "req_forged"}}}, 200, "",
			map[string][]string{"X-Request-Id": nil}},
		{"headers of the connection", "GET", abi.Response{Status: 304, Headers: []abi.Header{
			{Name: "transfer-encoding", Value: "gzip"}, {Name: "connection", Value: "close, x-gate"}, {Name: "Trailer:x-late", Value: "1"},
			{Name: "trailer", Value: "x-late"}, {Name: "upgrade", Value: "h2c"}, {Name: "keep-alive", Value: "timeout=9"}, {Name: "content-length", Value: "7"}}}, 304, "",
			map[string][]string{"Transfer-Encoding": nil, "Connection": nil, "Trailer:x-late": nil, "Trailer": nil, "Upgrade": nil, "Keep-Alive": nil, "Content-Length": nil}},
		{"no status", "GET", abi.Response{Body: []byte("half")}, 500, `{"error":"internal_error"}`, map[string][]string{"X-Gate": {"1"}, "Retry-After": {"1"}}},
		{"status beyond all", "GET", abi.Response{Status: 600}, 500, `{"error":"internal_error"}`, map[string][]string{"Retry-After": {"1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			front := newFront(pass, func(_ *abi.Request, resp *abi.Response) error { *resp = tt.resp; return nil }, nil)
			w := httptest.NewRecorder()
			front.ServeHTTP(w, httptest.NewRequest(tt.method, "/", nil))
			if w.Code != tt.status || w.Body.String() != tt.body {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, tt.status, tt.body)
			}
			for name, want := range tt.header {
				if got := w.Header()[name]; !slices.Equal(got, want) {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

// TestPathIsAsSent checks that the gate gets the path as it was sent: escaped once
// more it could be longer than the guest's input buffer.
func TestPathIsAsSent(t *testing.T) {
	for _, path := range []string{"/a", "/a%2Fb", "/%61", `/"<>`, "/é", "/%ff", "//a/../b"} {
		var got string
		front := newFront(func(req *abi.Request, resp *abi.Response) error {
			got, resp.Status = strings.Clone(req.Path), 200
			return nil
		}, nil, nil)
		r := httptest.NewRequest("GET", "http://host"+path, nil)
		front.ServeHTTP(httptest.NewRecorder(), r)
		if got != path {
			t.Errorf("%s: the gate saw %s", path, got)
		}
	}
}

func TestAnsweredMayKeepTheName(t *testing.T) {
	var seen []string
	names := []string{"echo", "oche"}
	called := 0
	modules := &httpfront.Modules{
		Gate: httpfront.Module{Caller: caller(func(_ *abi.Request, resp *abi.Response) error {
			called++
			return resp.ParseCopy((&abi.Response{Handler: names[called%2]}).Append(nil))
		})},
		Handlers: map[string]httpfront.Module{},
	}
	for _, name := range names {
		modules.Handlers[name] = httpfront.Module{Caller: caller(func(_ *abi.Request, resp *abi.Response) error { resp.Status = 200; return nil })}
	}
	front := httpfront.New(httpfront.Config{
		Modules: modules,
		Answered: func(_ context.Context, o *httpfront.Outcome) {
			seen = append(seen, o.Handler+" "+strconv.Itoa(o.Status))
		},
	})
	for range 4 {
		front.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	if want := []string{"oche 200", "echo 200", "oche 200", "echo 200"}; !slices.Equal(seen, want) {
		t.Errorf("answered %q, want %q", seen, want)
	}
}

// TestClientsThatGoAwayAreNoErrors checks that only failures of modules are logged
// as errors.
func TestClientsThatGoAwayAreNoErrors(t *testing.T) {
	for _, away := range []bool{false, true} {
		var log bytes.Buffer
		var outcome httpfront.Outcome
		front := httpfront.New(httpfront.Config{
			Modules: &httpfront.Modules{Gate: httpfront.Module{Caller: caller(func(*abi.Request, *abi.Response) error { return context.Canceled })}},
			Log:     slog.New(slog.NewTextHandler(&log, nil)), Answered: func(_ context.Context, o *httpfront.Outcome) { outcome = *o },
		})
		ctx, cancel := context.WithCancel(t.Context())
		if away {
			cancel()
		}
		front.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		cancel()
		if logged := log.Len() != 0; logged == away {
			t.Errorf("client away: %t, yet the log has %q", away, &log)
		}
		if want := map[bool]int{false: 500, true: httpfront.ClientGone}[away]; outcome.Status != want {
			t.Errorf("client away: %t, its status is %d, want %d", away, outcome.Status, want)
		}
	}
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkServe measures the front alone: gate and handler do almost nothing.
func BenchmarkServe(b *testing.B) {
	rates := []abi.Header{{Name: "x-ratelimit-limit", Value: "100"}, {Name: "x-ratelimit-remaining", Value: "99"},
		{Name: "x-ratelimit-reset-ms", Value: "600"}, {Name: "x-svc-environment", Value: "live"}}
	front := newFront(
		func(_ *abi.Request, resp *abi.Response) error {
			resp.Handler, resp.Headers = "echo", append(resp.Headers, rates...)
			return nil
		},
		func(_ *abi.Request, resp *abi.Response) error {
			resp.Status, resp.Body = 200, append(resp.Body, "{}"...)
			return nil
		}, nil)
	r := httptest.NewRequest("GET", "/api/v2/public/agents/me", nil)
	r.Header.Set("Authorization", "Bearer x")
	w := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		front.ServeHTTP(w, r)
	}
}
