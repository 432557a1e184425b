package httpfront_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/httpfront"
)

type caller func(*abi.Request, *abi.Response) error

func (f caller) Call(_ context.Context, req *abi.Request, resp *abi.Response) error {
	return f(req, resp)
}

// pass is a gate that passes every request to the handler "echo".
func pass(_ *abi.Request, resp *abi.Response) error {
	resp.Handler = "echo"
	resp.Principal = abi.Principal{KeyID: "key_1", AccountID: "acc_1"}
	resp.Params = append(resp.Params, abi.Param{Name: "id", Value: "p"})
	resp.Headers = append(resp.Headers, abi.Header{Name: "x-gate", Value: "1"})
	return nil
}

func newFront(gate, echo caller, log *slog.Logger) *httpfront.Front {
	return httpfront.New(httpfront.Config{
		Modules: &httpfront.Modules{
			Gate:     httpfront.Module{Caller: gate, Headers: []string{"authorization"}},
			Handlers: map[string]httpfront.Module{"echo": {Caller: echo, Headers: []string{"x-shown"}}},
		},
		Random: httpfront.Seed(1),
		Log:    log,
	})
}

func TestHandlerSeesWhatItMay(t *testing.T) {
	var gate, handler abi.Request
	keep := func(into *abi.Request, req *abi.Request) {
		*into = *req
		into.Headers = append([]abi.Header(nil), req.Headers...)
		into.Body = append([]byte(nil), req.Body...)
	}
	front := newFront(
		func(req *abi.Request, resp *abi.Response) error { keep(&gate, req); return pass(req, resp) },
		func(req *abi.Request, resp *abi.Response) error {
			keep(&handler, req)
			resp.Status = 201
			resp.Body = []byte(`{}`)
			resp.Headers = append(resp.Headers, abi.Header{Name: "x-handler", Value: "2"})
			return nil
		}, nil)
	r := httptest.NewRequest("POST", "/a%2Fb?q=1", strings.NewReader("body"))
	r.RemoteAddr = "[::ffff:192.0.2.7]:99"
	r.Header["Authorization"] = []string{"one", "two"}
	r.Header.Set("X-Shown", "yes")
	r.Header.Set("X-Hidden", "no")
	w := httptest.NewRecorder()
	front.ServeHTTP(w, r)

	if gate.Method != "POST" || gate.Path != "/a%2Fb" || gate.Query != "q=1" || gate.Client != "192.0.2.7" || len(gate.Body) != 0 {
		t.Errorf("gate saw %+v", gate)
	}
	if len(gate.Headers) != 2 || gate.Headers[1] != (abi.Header{Name: "authorization", Value: "two"}) {
		t.Errorf("gate saw headers %v", gate.Headers)
	}
	if string(handler.Body) != "body" || handler.Principal.AccountID != "acc_1" || handler.Param("id") != "p" {
		t.Errorf("handler saw %+v", handler)
	}
	if len(handler.Headers) != 1 || handler.Headers[0].Name != "x-shown" {
		t.Errorf("handler saw headers %v", handler.Headers)
	}
	if handler.Random != gate.Random || handler.Random == [32]byte{} {
		t.Error("gate and handler of one request have no randomness, or not the same")
	}
	if w.Code != 201 || w.Header().Get("X-Gate") != "1" || w.Header().Get("X-Handler") != "2" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("answered %d %v", w.Code, w.Header())
	}
}

// TestHost: a module may see the request's host as the header of that name, over each version
// of HTTP.
func TestHost(t *testing.T) {
	for version := 1; version <= 2; version++ {
		var gate, handler []string
		hosts := func(into *[]string, req *abi.Request) {
			for _, h := range req.Headers {
				if h.Name == "host" {
					*into = append(*into, h.Value)
				}
			}
		}
		front := newFront(
			func(req *abi.Request, resp *abi.Response) error { hosts(&gate, req); return pass(req, resp) },
			func(req *abi.Request, resp *abi.Response) error {
				hosts(&handler, req)
				resp.Status, resp.Body = 200, []byte(`{}`)
				return nil
			}, nil)
		echo := front.Modules.Handlers["echo"]
		echo.Headers = []string{"x-shown", "host"}
		front.Modules.Handlers["echo"] = echo
		server := httptest.NewUnstartedServer(front)
		server.EnableHTTP2 = version == 2
		server.StartTLS()
		defer server.Close()
		req, err := http.NewRequest("GET", server.URL+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "partner.example:8443"
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.ProtoMajor != version || resp.StatusCode != 200 {
			t.Fatalf("%s %s, want HTTP/%d and 200", resp.Proto, resp.Status, version)
		}
		if len(gate) != 0 || len(handler) != 1 || handler[0] != req.Host {
			t.Errorf("HTTP/%d: the gate saw the hosts %q and the handler %q, want none and %q", version, gate, handler, req.Host)
		}
	}
}

// TestPreflightsBeginNothing: a preflight is refused before Begin, which may look up the
// key that it carries, and its outcome has nothing of the request before it.
func TestPreflightsBeginNothing(t *testing.T) {
	begun := 0
	var outcome httpfront.Outcome
	front := newFront(pass, pass, nil)
	front.Begin = func(w http.ResponseWriter, r *http.Request) (context.Context, http.ResponseWriter) {
		begun++
		return r.Context(), w
	}
	front.Answered = func(_ context.Context, o *httpfront.Outcome) { outcome = *o }
	for _, tt := range []struct {
		preflight     bool
		status, begun int
	}{{false, 500, 1}, {true, 403, 1}, {false, 500, 2}} {
		r := httptest.NewRequest("OPTIONS", "/", nil)
		r.Header.Set("Authorization", "Bearer made-up")
		r.Header.Set("Origin", "https://shop.example")
		if tt.preflight {
			r.Header.Set("Access-Control-Request-Method", "POST")
		}
		w := httptest.NewRecorder()
		httpfront.WithRequestID(time.Now, nil, front).ServeHTTP(w, r)
		if w.Code != tt.status || begun != tt.begun {
			t.Errorf("preflight %v: status %d, want %d; %d begun, want %d", tt.preflight, w.Code, tt.status, begun, tt.begun)
		}
		if id := w.Header().Get(httpfront.RequestID); id == "" || outcome.RequestID != id || outcome.Status != tt.status || outcome.Method != "OPTIONS" {
			t.Errorf("preflight %v: outcome %+v of %s", tt.preflight, outcome, id)
		}
		if tt.preflight && (outcome.Refusal.Code != "cors_not_allowed" || outcome.Principal.KeyID != "" || w.Header().Get("Cache-Control") != "no-store") {
			t.Errorf("refused with %v, outcome %+v", w.Header(), outcome)
		}
	}
}

func TestBodies(t *testing.T) {
	whole := bytes.Repeat([]byte("x"), httpfront.MaxBody)
	for _, tt := range []struct {
		name   string
		body   io.Reader
		status int
	}{
		{"none", nil, 200},
		{"just fits", bytes.NewReader(whole), 200},
		{"one byte more", bytes.NewReader(append(whole, 'x')), 413},
		{"one byte more, length unknown", struct{ io.Reader }{bytes.NewReader(append(whole, 'x'))}, 413},
		{"byte by byte", iotest.OneByteReader(strings.NewReader("slow")), 200},
		{"breaks off", iotest.ErrReader(errors.New("gone")), 408},
	} {
		front := newFront(pass, func(req *abi.Request, resp *abi.Response) error {
			resp.Status = 200
			return nil
		}, nil)
		w := httptest.NewRecorder()
		front.ServeHTTP(w, httptest.NewRequest("POST", "/", tt.body))
		if w.Code != tt.status || w.Header().Get("X-Gate") != "1" {
			t.Errorf("%s: %d %v, want %d with the gate's headers", tt.name, w.Code, w.Header(), tt.status)
		}
	}
}

// TestRequestBeyondTheGuestsBuffer: sent again it would not fit either.
func TestRequestBeyondTheGuestsBuffer(t *testing.T) {
	front := newFront(pass, func(*abi.Request, *abi.Response) error { return fmt.Errorf("call module: %w", abi.ErrTooLarge) }, nil)
	w := httptest.NewRecorder()
	front.ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
	if w.Code != 413 || w.Body.String() != `{"error":"payload_too_large"}` || w.Header().Get("Retry-After") != "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

// TestServersAnswerNothingThemselves: net/http would answer OPTIONS of the whole server.
func TestServersAnswerNothingThemselves(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpfront.NewLocalServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	server.ReadHeaderTimeout, server.ReadTimeout = time.Minute, time.Minute // however slow this machine is
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		if err := errors.Join(server.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestFailuresStayInside(t *testing.T) {
	broken := func(*abi.Request, *abi.Response) error { return errors.New("a secret detail") }
	nowhere := func(_ *abi.Request, resp *abi.Response) error { resp.Handler = "nobody"; return nil }
	nonsense := func(_ *abi.Request, resp *abi.Response) error { resp.Status = 99; return nil }
	for name, gate := range map[string]caller{"broken": broken, "nowhere": nowhere, "nonsense": nonsense} {
		var log bytes.Buffer
		front := newFront(gate, pass, slog.New(slog.NewTextHandler(&log, nil)))
		w := httptest.NewRecorder()
		front.ServeHTTP(w, httptest.NewRequest("A-KEY-THAT-WAS-SENT-AS-METHOD", "/", nil))
		if w.Code != http.StatusInternalServerError || w.Body.String() != `{"error":"internal_error"}` {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if name == "broken" && !strings.Contains(log.String(), "a secret detail") {
			t.Errorf("%s: the log does not say why: %s", name, &log)
		}
		if !strings.Contains(log.String(), "method=_OTHER") {
			t.Errorf("%s: the log has what a client made up: %s", name, &log)
		}
	}
}
