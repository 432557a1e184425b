package httpfront_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// TestGatesOutlastTheirClients: a gate that begins ends, whatever its client does, and no handler
// is called for one that is gone.
func TestGatesOutlastTheirClients(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var outcome httpfront.Outcome
	front := httpfront.New(httpfront.Config{
		Modules: &httpfront.Modules{
			Gate: httpfront.Module{Caller: inContext(func(of context.Context, resp *abi.Response) error {
				cancel()
				resp.Handler = "echo"
				return of.Err()
			})},
			Handlers: map[string]httpfront.Module{"echo": {Caller: inContext(func(context.Context, *abi.Response) error {
				t.Error("a handler was called")
				return nil
			})}},
		},
		Log: slog.New(slog.DiscardHandler), Answered: func(_ context.Context, o *httpfront.Outcome) { outcome = *o },
	})
	front.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if outcome.Status != httpfront.ClientGone || outcome.Handler != "echo" {
		t.Errorf("the outcome is %+v", outcome)
	}
}

// fromOutside is an error whose cause lies outside the module.
type fromOutside struct{ error }

func (fromOutside) Outside() bool   { return true }
func (f fromOutside) Unwrap() error { return f.error }

// TestOutside says which errors have their cause outside the modules. What the client did not
// wait for, or was told in another way, is no error.
func TestOutside(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		hindered bool
		err      error
		gone     bool
		want     bool
	}{
		"a capability failed":           {500, true, nil, false, true},
		"its own":                       {500, false, nil, false, false},
		"it failed":                     {0, false, errors.New("trap"), false, false},
		"no sandbox":                    {0, false, fmt.Errorf("call: %w", fromOutside{errors.New("busy")}), false, true},
		"too long":                      {0, false, fromOutside{abi.ErrTooLarge}, false, false},
		"answered all the same":         {200, true, nil, false, false},
		"the client is gone":            {500, true, nil, true, false},
		"the client is gone, cancelled": {0, false, fromOutside{context.Canceled}, true, false},
	} {
		var outcome httpfront.Outcome
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		front := httpfront.New(httpfront.Config{
			Modules: &httpfront.Modules{
				Gate: httpfront.Module{Caller: caller(pass)},
				Handlers: map[string]httpfront.Module{"echo": {Caller: inContext(func(_ context.Context, resp *abi.Response) error {
					if c.gone {
						cancel()
					}
					resp.Status, resp.Hindered = c.status, c.hindered
					return c.err
				})}},
			},
			Log: slog.New(slog.DiscardHandler), Answered: func(_ context.Context, o *httpfront.Outcome) { outcome = *o },
		})
		front.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		if outcome.Outside != c.want {
			t.Errorf("%s: %+v", name, outcome)
		}
	}
}

// inContext is a Caller that looks at its context.
type inContext func(ctx context.Context, resp *abi.Response) error

func (f inContext) Call(ctx context.Context, _ *abi.Request, resp *abi.Response) error {
	return f(ctx, resp)
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
