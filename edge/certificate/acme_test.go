package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"

	"partneredge/edge/certificate/certificatetest"
)

// everywhere is a name server to which every name is 127.0.0.1.
func everywhere(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // Pebble asks over TCP
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: ln, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, asked *dns.Msg) {
		answer := new(dns.Msg)
		answer.SetReply(asked)
		for _, q := range asked.Question {
			if q.Qtype == dns.TypeA {
				answer.Answer = append(answer.Answer, &dns.A{
					Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)})
			}
		}
		_ = w.WriteMsg(answer) // who asked asks again
	})}
	up, done := make(chan struct{}), make(chan struct{})
	server.NotifyStartedFunc = func() { close(up) }
	go func() {
		defer close(done)
		_ = server.ActivateAndServe() // ends with Shutdown
	}()
	<-up
	t.Cleanup(func() {
		_ = server.Shutdown()
		<-done
	})
	return ln.Addr().String()
}

// authority is Pebble, the ACME server that Let's Encrypt tests clients with. It
// proves names at tlsPort.
func authority(t *testing.T, tlsPort int) (directory, caFile string, roots *x509.CertPool) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	quiet := log.New(t.Output(), "", 0)
	store := db.NewMemoryStore()
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "the default"}})
	front := wfe.New(quiet, store, va.New(quiet, 0, tlsPort, false, everywhere(t), store), issuer, nil, false, false, 1, 1)
	server := httptest.NewTLSServer(front.Handler())
	t.Cleanup(server.Close)
	caFile = filepath.Join(t.TempDir(), "acme-ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(issuer.GetRootCert(0).Cert)
	return server.URL + wfe.DirectoryPath, caFile, roots
}

// TestACME: a certificate is asked for at the first connection, kept on disk,
// and used by the next start without the authority.
func TestACME(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	directory, caFile, roots := authority(t, ln.Addr().(*net.TCPAddr).Port)
	c := ACMEConfig{Hosts: []string{"eu.example.com"}, Dir: filepath.Join(t.TempDir(), "acme"), URL: directory, CA: caFile, Email: "ops@example.com", Log: slog.New(slog.DiscardHandler)}

	serve := func(c ACMEConfig, ln net.Listener) (addr string) {
		t.Helper()
		config, err := ACME(c)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{
			Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }),
			ErrorLog:  log.New(t.Output(), "", 0),
			TLSConfig: config, ReadHeaderTimeout: time.Minute,
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = server.Serve(tls.NewListener(ln, config)) // ends with Close
		}()
		t.Cleanup(func() {
			_ = server.Close()
			<-done
		})
		return ln.Addr().String()
	}
	dial := func(addr, name string) error {
		dialer := &net.Dialer{Timeout: time.Minute}
		conn, err := tls.DialWithDialer(dialer, "tcp", addr, &tls.Config{ServerName: name, RootCAs: roots, NextProtos: []string{"h2"}})
		if err != nil {
			return err
		}
		defer conn.Close()
		if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
			t.Errorf("the protocol is %q, want h2", got)
		}
		return conn.VerifyHostname(name)
	}
	first := serve(c, ln)
	if err := dial(first, "eu.example.com"); err != nil {
		t.Fatalf("the first connection: %v", err)
	}
	if err := dial(first, "us.example.com"); err == nil {
		t.Error("a name that is not ours got a certificate")
	}
	for _, kept := range []string{"eu.example.com", "acme_account+key"} {
		if info, err := os.Stat(filepath.Join(c.Dir, kept)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("kept on disk: %v, %v", info, err)
		}
	}

	c.URL = "https://127.0.0.1:1/gone"
	again, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := dial(serve(c, again), "eu.example.com"); err != nil {
		t.Errorf("after a restart, without the authority: %v", err)
	}
}

// TestHandshakesLeaveTheAuthority: a handshake ends with its context while the authority does
// not answer, as do those that wait behind it, and the authority is asked by one alone.
func TestHandshakesLeaveTheAuthority(t *testing.T) {
	var asked atomic.Int64
	asks, answers := make(chan struct{}), make(chan struct{})
	authority := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 1 {
			close(asks)
		}
		<-answers
	}))
	defer authority.Close()
	defer close(answers)
	config, err := ACME(ACMEConfig{Hosts: []string{"eu.example.com"}, Dir: t.TempDir(), URL: authority.URL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error)
	for range 3 {
		client, server := net.Pipe()
		defer client.Close()
		go func() {
			_ = tls.Client(client, &tls.Config{ServerName: "eu.example.com", InsecureSkipVerify: true}).HandshakeContext(t.Context())
		}()
		go func() { failed <- tls.Server(server, config).HandshakeContext(ctx) }()
	}
	<-asks
	cancel()
	for range 3 {
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a handshake without an answer of the authority ends with %v", err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the authority was asked %d times", n)
	}
}

// lines is a log for tests: each line that is written can be received once.
type lines chan string

// Write implements io.Writer.
func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func (l lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// next returns the next line.
func (l lines) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-l:
		return line
	case <-time.After(time.Minute):
		t.Fatal("nothing is logged")
		return ""
	}
}

// handshake returns how a handshake of a client that asks config for host ends, which ctx
// ends at the server.
func handshake(t *testing.T, ctx context.Context, config *tls.Config, host string) error {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: host, InsecureSkipVerify: true}).HandshakeContext(t.Context())
	}()
	return tls.Server(server, config).HandshakeContext(ctx)
}

// TestNoCertificateIsLogged: the reason is logged also when the authority answers after the
// handshake, once a minute however many handshakes there are.
func TestNoCertificateIsLogged(t *testing.T) {
	asks, answers := make(chan struct{}, 1), make(chan struct{})
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asks <- struct{}{}
		<-answers
		http.Error(w, "too many certificates", http.StatusForbidden)
	}))
	defer authority.Close()
	log := make(lines, 9)
	config, err := ACME(ACMEConfig{Hosts: []string{"eu.example.com"}, Dir: t.TempDir(), URL: authority.URL, Log: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asks
		cancel()
	}()
	if err := handshake(t, ctx, config, "eu.example.com"); !errors.Is(err, context.Canceled) {
		t.Fatalf("the handshake ends with %v", err)
	}
	close(answers)
	line := log.next(t)
	for _, part := range []string{"level=WARN", "host=eu.example.com", "too many certificates"} {
		if !strings.Contains(line, part) {
			t.Errorf("the line lacks %q: %s", part, line)
		}
	}
	for range 2 {
		if handshake(t, t.Context(), config, "eu.example.com") == nil {
			t.Error("a certificate came from nowhere")
		}
	}
	if len(log) > 0 {
		t.Errorf("logged again: %s", <-log)
	}
}

// TestNameThatCannotBeVerifiedIsLogged: the authority itself says why, in an answer that is a
// success of HTTP.
func TestNameThatCannotBeVerifiedIsLogged(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	directory, caFile, _ := authority(t, closed.Addr().(*net.TCPAddr).Port)
	log := make(lines, 9)
	config, err := ACME(ACMEConfig{Hosts: []string{"eu.example.com"}, Dir: t.TempDir(), URL: directory, CA: caFile, Log: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	if handshake(t, t.Context(), config, "eu.example.com") == nil {
		t.Error("a certificate for a name that the authority cannot reach")
	}
	if line := log.next(t); !strings.Contains(line, "Failed to connect to 127.0.0.1") {
		t.Errorf("the line does not say why: %s", line)
	}
}

// TestLateRenewalIsLogged: a certificate whose time to be renewed is past is served, and a
// warning says so. One with more time is served silently.
func TestLateRenewalIsLogged(t *testing.T) {
	authority := httptest.NewServer(http.NotFoundHandler())
	defer authority.Close()
	const late, early = "eu.example.com", "us.example.com"
	log := make(lines, 9)
	c := ACMEConfig{Hosts: []string{late, early}, Dir: t.TempDir(), URL: authority.URL, Log: log.logger()}
	for host, left := range map[string]time.Duration{late: 10 * time.Minute, early: time.Hour} {
		cert, key := certificatetest.PairUntil(t, 1, host, time.Now().Add(left))
		if err := os.WriteFile(filepath.Join(c.Dir, host), append(key, cert...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := ACME(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{early, late} {
		if err := handshake(t, t.Context(), config, host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if line := log.next(t); !strings.Contains(line, "the certificate is not renewed by ACME") || !strings.Contains(line, "host="+late) {
		t.Errorf("logged: %s", line)
	}
}

// held starts ACME for host, whose certificate is kept as name, at an authority that does
// not answer. dial returns how a client's handshake ends.
func held(t *testing.T, host, name string) (dial func(client *tls.Config) error) {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	c := ACMEConfig{Hosts: []string{host}, Dir: t.TempDir(), URL: "http://" + silent.Addr().String(), Log: slog.New(slog.DiscardHandler)}
	cert, key := certificatetest.Pair(t, 1, name)
	if err := os.WriteFile(filepath.Join(c.Dir, name), append(key, cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := ACME(c)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return func(client *tls.Config) error {
		near, far := net.Pipe()
		defer near.Close()
		go func() {
			_ = tls.Server(far, config).HandshakeContext(ctx)
			_ = far.Close()
		}()
		client.ServerName, client.RootCAs = name, roots
		return tls.Client(near, client).HandshakeContext(ctx)
	}
}

// TestHostOfAnyAlphabet: a host may be given in its own letters. Clients ask for it in ASCII.
func TestHostOfAnyAlphabet(t *testing.T) {
	const ascii = "xn--bcher-kva.example"
	for _, host := range []string{"Bücher.example", ascii} {
		if err := held(t, host, ascii)(new(tls.Config)); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestEveryClientIsServedWhatIsHeld: a client of TLS 1.3 alone, which names no suites of
// TLS 1.2, neither waits for a certificate of its own kind nor has others wait for it.
func TestEveryClientIsServedWhatIsHeld(t *testing.T) {
	const host = "eu.example.com"
	dial := held(t, host, host)
	for _, lowest := range []uint16{tls.VersionTLS13, tls.VersionTLS12} {
		if err := dial(&tls.Config{MinVersion: lowest}); err != nil {
			t.Errorf("a client of %s and above: %v", tls.VersionName(lowest), err)
		}
	}
}

func TestACMERefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hosts := []string{"eu.example.com"}
	for name, c := range map[string]ACMEConfig{
		"no host":                                {Dir: dir},
		"a host that is no name":                 {Hosts: []string{"eu example.com"}, Dir: dir},
		"no folder":                              {Hosts: hosts},
		"a folder that is a file":                {Hosts: hosts, Dir: empty},
		"an authority's file that is not there":  {Hosts: hosts, Dir: dir, CA: filepath.Join(dir, "none")},
		"an authority's file with nothing in it": {Hosts: hosts, Dir: dir, CA: empty},
	} {
		if _, err := ACME(c); err == nil || !strings.HasPrefix(err.Error(), "ACME: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
