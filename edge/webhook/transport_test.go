package webhook

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// call calls an endpoint as a try does, by a name that only the guard's resolver
// knows.
func call(t *testing.T, endpoint *receiver) (*http.Response, error) {
	t.Helper()
	const host = "hook.example.com" // the certificate of httptest names it
	dns := newDNS(t)
	dns.set(host, "127.0.0.1")
	transport, err := newTransport(Config{
		Guard: NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: time.Minute, Allow: loopback}), CAFile: caFile(t, endpoint),
		Timeout: time.Minute, PerEndpoint: 1,
	})
	must(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	_, port, err := net.SplitHostPort(endpoint.Listener.Addr().String())
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "POST", "https://"+net.JoinHostPort(host, port)+"/hook", strings.NewReader("{}"))
	must(t, err)
	resp, err := transport.RoundTrip(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

// proxiedEnv is set in the process that TestNoProxy starts.
const proxiedEnv = "WEBHOOK_TEST_PROXIED"

// TestNoProxy delivers in a process whose environment names a proxy. The endpoint
// must be called itself: of a proxy, the guard would judge the address of that.
func TestNoProxy(t *testing.T) {
	if os.Getenv(proxiedEnv) != "" {
		endpoint := newReceiver(t, nil)
		if _, err := call(t, endpoint); err != nil || endpoint.count() != 1 {
			t.Errorf("the endpoint was called %d times: %v", endpoint.count(), err)
		}
		return
	}
	var reached atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer proxy.Close()
	process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxy$", "-test.count=1")
	process.Env = append(os.Environ(), proxiedEnv+"=1", "NO_PROXY=", "no_proxy=",
		"HTTP_PROXY="+proxy.URL, "HTTPS_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "https_proxy="+proxy.URL)
	if out, err := process.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("the proxy was called %d times", n)
	}
}

// barrenEnv is set in the process that TestNoAuthorities starts.
const barrenEnv = "WEBHOOK_TEST_BARREN"

// TestNoAuthorities starts senders on a machine without the certificates of any authority,
// where no endpoint is trusted: one says so, and one that has a file of them does not.
func TestNoAuthorities(t *testing.T) {
	if os.Getenv(barrenEnv) == "" {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoAuthorities$", "-test.count=1")
		process.Env = append(os.Environ(), barrenEnv+"=1", "SSL_CERT_FILE=/nowhere", "SSL_CERT_DIR=/nowhere")
		if out, err := process.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for file, want := range map[string]bool{"": true, caFile(t, newReceiver(t, nil)): false} {
		db := openDB(t, schema.Copy(t, filepath.Join(t.TempDir(), "origin.db")))
		log := new(strings.Builder)
		s := startSender(t, db, Config{CAFile: file, Log: slog.New(slog.NewTextHandler(log, nil))})
		must(t, s.Stop(t.Context()))
		if got := strings.Contains(log.String(), "level=ERROR") && strings.Contains(log.String(), "ca-certificates"); got != want {
			t.Errorf("with --webhook-ca %q it logged %q", file, log)
		}
	}
}

// TestEndpointsSpeakTLS12 calls endpoints that speak one version of TLS each.
func TestEndpointsSpeakTLS12(t *testing.T) {
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		endpoint := newReceiver(t, nil)
		endpoint.TLS.MinVersion, endpoint.TLS.MaxVersion = version, version
		endpoint.TLS.NextProtos = []string{"http/1.1"} // HTTP/2 alone would refuse the old ones
		_, err := call(t, endpoint)
		if want := version >= tls.VersionTLS12; (err == nil) != want || (endpoint.count() == 1) != want {
			t.Errorf("%s: %v, called %d times, want it called: %t", tls.VersionName(version), err, endpoint.count(), want)
		}
	}
}

// TestEndpointsAreBounded has an endpoint answer with more headers than are read,
// and sees that it is asked for nothing compressed.
func TestEndpointsAreBounded(t *testing.T) {
	for bytes, fits := range map[int]bool{headersMost / 2: true, headersMost * 2: false} {
		endpoint := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", bytes))
		})
		_, err := call(t, endpoint)
		if (err == nil) != fits {
			t.Errorf("%d bytes of headers: %v, want them read: %t", bytes, err, fits)
		}
		for _, got := range endpoint.all() {
			if encoding := got.header.Get("Accept-Encoding"); encoding != "" {
				t.Errorf("asked for %s", encoding)
			}
		}
	}
	if _, err := newTransport(Config{Guard: NewGuard(GuardConfig{}), CAFile: "none.pem"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a CA file that is not there: %v", err)
	}
}
