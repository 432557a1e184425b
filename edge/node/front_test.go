package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"partneredge/edge/certificate/certificatetest"
	"partneredge/store/logtest"
	answers "partneredge/wasm/answer"
	"partneredge/wasm/httpfront"
)

func TestTLSAndHTTP2(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	c := config(t, o)
	roots := selfSigned(t, &c)
	n := startNode(t, c)
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(n.URL() + me)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 401 || resp.ProtoMajor != 2 || resp.TLS.Version != tls.VersionTLS13 {
		t.Errorf("status %d, HTTP/%d, TLS %x", resp.StatusCode, resp.ProtoMajor, resp.TLS.Version)
	}
	old := &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS12}
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(n.URL(), "https://"), old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.2 is spoken")
	}
	for _, file := range []string{"openapi/openapi.json", "openapi/guide/limits.md", "../OPERATIONS.md"} {
		if text, err := os.ReadFile(file); err != nil || !regexp.MustCompile(`TLS (\| |is )?1\.3`).Match(text) {
			t.Errorf("%s does not say which TLS is spoken, %v", file, err)
		}
	}
}

// TestHeadersHaveABound holds that headers beyond the bound are refused in JSON under a
// request id, over HTTP/1.1 and HTTP/2, and that those beyond twice the bound are not
// read to their end.
func TestHeadersHaveABound(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	c := config(t, o)
	roots := selfSigned(t, &c)
	n := startNode(t, c)
	for _, protocol := range []int{1, 2} {
		transport := &http.Transport{ForceAttemptHTTP2: protocol == 2, TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer transport.CloseIdleConnections()
		for _, tt := range []struct {
			size, status int
			body         string
		}{
			{14 << 10, 401, `{"error":"unauthorized","reason":"missing_bearer_token"}`},
			{17 << 10, 431, `{"error":"header_too_large"}`},
			{31 << 10, 431, `{"error":"header_too_large"}`},
			{40 << 10, 431, ""}, // of net/http
		} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", n.URL()+me, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Long", strings.Repeat("x", tt.size))
			resp, err := transport.RoundTrip(req)
			if protocol == 2 && tt.size == 40<<10 { // the server tells clients not to send it
				if err == nil || !strings.Contains(err.Error(), "advertised limit") {
					t.Errorf("%d bytes of header over HTTP/2: %v, want the client to know the bound", tt.size, err)
				}
				if err == nil {
					resp.Body.Close()
				}
				continue
			}
			if err != nil {
				t.Fatalf("%d bytes of header: %v", tt.size, err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != tt.status || resp.ProtoMajor != protocol || tt.body != "" && string(body) != tt.body {
				t.Errorf("%d bytes of header: HTTP/%d, %d %s, %v; want %d %s", tt.size, resp.ProtoMajor, resp.StatusCode, body, err, tt.status, tt.body)
			}
			if tt.body != "" && (resp.Header.Get(httpfront.RequestID) == "" || !strings.Contains(resp.Header.Get("Link"), `rel="help"`)) {
				t.Errorf("%d bytes of header: answered with %v", tt.size, resp.Header)
			}
		}
	}
}

// TestManyHeadersHaveABound holds what the documents say of the bound: HTTP/2 counts 32
// bytes more for each header, and HTTP/1.1 is answered in JSON up to about 35 KiB.
func TestManyHeadersHaveABound(t *testing.T) {
	t.Parallel()
	documents := map[string]string{}
	for _, file := range []string{"openapi/guide/limits.md", "../OPERATIONS.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents[file] = strings.ReplaceAll(string(text), "\n", " ")
	}
	for _, r := range answers.Refusals() {
		if r.Code == "header_too_large" {
			documents[r.Code] = r.Remedy
		}
	}
	const bound = "about 35 KiB over HTTP/1.1; 32 KiB over HTTP/2, counting 32 bytes extra per header"
	for name, text := range documents {
		if !strings.Contains(text, bound) {
			t.Errorf("%s does not say %q", name, bound)
		}
	}
	if len(documents) != 3 {
		t.Errorf("%d documents", len(documents))
	}
	c := config(t, newOrigin(t))
	roots := selfSigned(t, &c)
	n := startNode(t, c)
	for _, tt := range []struct {
		protocol, headers, size int
		want                    string
	}{
		{1, 1, 34 << 10, `{"error":"header_too_large"}`},
		{1, 1, 36 << 10, "431 Request Header Fields Too Large"},
		{1, 1000, 1, `{"error":"unauthorized","reason":"missing_bearer_token"}`},
		{2, 700, 1, `{"error":"unauthorized","reason":"missing_bearer_token"}`},
		{2, 1000, 1, "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>"},
	} {
		transport := &http.Transport{ForceAttemptHTTP2: tt.protocol == 2, TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), "GET", n.URL()+me, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tt.headers {
			req.Header.Set(fmt.Sprintf("X-H%04d", i), strings.Repeat("x", tt.size))
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			// The client may have learned the bound before it sent the request.
			if !strings.HasPrefix(tt.want, "<h1>") || !strings.Contains(err.Error(), "advertised limit") {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != tt.want || resp.ProtoMajor != tt.protocol {
			t.Errorf("%+v: HTTP/%d, %d %s, %v", tt, resp.ProtoMajor, resp.StatusCode, body, err)
		}
	}
}

// TestWhatIsNoRequest: what net/http cannot read as a request, it answers as the guide says. All
// else the gate has seen first, even what net/http would answer by itself.
func TestWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	n := startNode(t, config(t, newOrigin(t)))
	guide := string(must(os.ReadFile("openapi/guide/errors.md"))(t))
	const unauthorized = `{"error":"unauthorized","reason":"missing_bearer_token"}`
	for text, want := range map[string]struct {
		status int
		body   string
	}{
		"OPTIONS * HTTP/1.1\r\nHost: x":                                            {401, unauthorized},
		"GET /api/v2/public/webhooks/100%25 HTTP/1.1\r\nHost: x":                   {401, unauthorized},
		"GET /api/v2/public/webhooks/100% HTTP/1.1\r\nHost: x":                     {400, "400 Bad Request"},
		"GET /api/v2/public/agents/me HTTP/1.1":                                    {400, "400 Bad Request: missing required Host header"},
		"GET /api/v2/public/agents/me HTTP/1.1\r\nHost: x\r\nExpect: a-miracle":    {417, ""},
		"GET /api/v2/public/agents/me HTTP/3.0\r\nHost: x":                         {505, "505 HTTP Version Not Supported: unsupported protocol version"},
		"POST /api/v2/public/leads HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip": {501, "Unsupported transfer encoding"},
	} {
		conn := must(net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://")))(t)
		must(conn.Write([]byte(text + "\r\nConnection: close\r\n\r\n")))(t)
		resp := must(http.ReadResponse(bufio.NewReader(conn), nil))(t)
		if body := must(io.ReadAll(resp.Body))(t); resp.StatusCode != want.status || string(body) != want.body {
			t.Errorf("%q: status %d, %s", text, resp.StatusCode, body)
		}
		if want.status != 401 && !strings.Contains(guide, fmt.Sprintf("`%d`", want.status)) {
			t.Errorf("the guide does not say that %q gets %d", text, want.status)
		}
		_ = resp.Body.Close()
		_ = conn.Close()
	}
}

// TestCertificateIsReplaced: while the node runs, for new connections; files that
// make no pair change nothing.
func TestCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	c := config(t, o)
	var clock secondsPassed
	var log logtest.Buffer
	c.Now, c.Log = clock.now, slog.New(slog.NewTextHandler(&log, nil))
	first := selfSigned(t, &c)
	n := startNode(t, c)
	answers := func(roots *x509.CertPool) bool {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(n.URL(), "https://"), &tls.Config{RootCAs: roots})
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}
	if !answers(first) {
		t.Fatal("the first certificate is not used")
	}
	second := selfSigned(t, &c)
	clock.Add(2)
	if !answers(second) || answers(first) {
		t.Error("the second certificate is not used")
	}
	if err := os.WriteFile(c.TLSCert, []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock.Add(2)
	for range 2 {
		if !answers(second) {
			t.Error("a broken file ended the service")
		}
	}
	if said := strings.Count(log.String(), "the new certificate is not used"); said != 1 {
		t.Errorf("said %d times that the file is broken:\n%s", said, log.String())
	}
}

// selfSigned gives c a certificate, and returns who signed it.
func selfSigned(t *testing.T, c *Config) *x509.CertPool {
	t.Helper()
	c.TLSCert, c.TLSKey = certificatetest.Write(t, c.Data)
	return certificatetest.Roots(t, c.TLSCert)
}

// TestRefusalIsRead sends far more header than is read: the answer arrives all the
// same, and not a reset.
func TestRefusalIsRead(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	n := startNode(t, config(t, o))
	for range 50 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 64)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 431") {
			t.Fatalf("%q, %v", answer[:n], err)
		}
		_ = conn.Close()
	}
}

// TestRefusalDoesNotWaitForTheBody sends one byte of a lead without a key: the refusal
// comes at once, and the connection goes on once the rest was sent.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	n := startNode(t, config(t, newOrigin(t))) // which gives a body five minutes
	conn := must(net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://")))(t)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	for _, text := range []string{
		"POST /api/v2/public/leads HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		strings.Repeat(" ", 99) + "GET /api/v2/public/agents/me HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("no answer to %q: %v", text, err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 401 || resp.Close {
			t.Errorf("%d %s, %v, closes %v", resp.StatusCode, body, err, resp.Close)
		}
		_ = resp.Body.Close()
	}
}

// TestDrain: a node that drains tells balancers to send no more, and answers what they send
// nevertheless, until the time to stop is over.
func TestDrain(t *testing.T) {
	t.Parallel()
	c := config(t, newOrigin(t))
	c.Drain = time.Hour
	n, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, n, "GET", "/healthz", "", "").want(t, 200)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(ctx) }()
	eventually(t, "balancers are told", func() bool { return ask(t, n, "GET", "/healthz", "", "").status == 503 })
	ask(t, n, "GET", me, "", "").want(t, 401)
	resp, err := http.Get(n.MetricsURL() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != 503 {
		t.Errorf("/readyz is answered %d, %v", resp.StatusCode, err)
	}
	select {
	case err := <-stopped:
		t.Errorf("stopped without a drain: %v", err)
	default:
	}
	cancel()
	<-stopped
	if conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://")); err == nil {
		_ = conn.Close()
		t.Error("a node that has stopped takes connections")
	}
}
