package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/certificate/certificatetest"
)

// TestFiles replaces the files step by step. Each step has the certificate that a
// new connection then gets, and the number of lines in the log.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	c := FilesConfig{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	put := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert1, key1 := certificatetest.Pair(t, 1, "127.0.0.1")
	cert2, key2 := certificatetest.Pair(t, 2, "127.0.0.1")
	cert3, key3 := certificatetest.Pair(t, 3, "127.0.0.1")
	put(c.Cert, cert1)
	put(c.Key, key1)
	var log bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	c.Log, c.Now = slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now }
	f, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name   string
		do     func()
		after  time.Duration
		serial int64
		lines  int
	}{
		{"nothing has changed", func() {}, time.Minute, 1, 0},
		{"both are new, too soon to be read", func() { put(c.Cert, cert2); put(c.Key, key2) }, time.Second / 2, 1, 0},
		{"both are new", func() {}, time.Second / 2, 2, 1},
		{"the certificate is new, its key is not there yet", func() { put(c.Cert, cert3) }, time.Second, 2, 2},
		{"the same a while later: not logged again", func() {}, time.Hour, 2, 2},
		{"the key has come too", func() { put(c.Key, key3) }, time.Second, 3, 3},
		{"no PEM", func() { put(c.Cert, []byte("nonsense")) }, time.Second, 3, 4},
		{"still no PEM, other bytes", func() { put(c.Cert, cert1[:len(cert1)/2]) }, time.Second, 3, 5},
		{"gone", func() { _ = os.Remove(c.Key) }, time.Second, 3, 6},
		{"still gone", func() {}, time.Second, 3, 6},
		{"the first again, and the clock was put back", func() { put(c.Cert, cert1); put(c.Key, key1) }, -24 * time.Hour, 1, 7},
	} {
		step.do()
		now = now.Add(step.after)
		for range 3 {
			got, err := f.Get(nil)
			if err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if serial := got.Leaf.SerialNumber.Int64(); serial != step.serial {
				t.Errorf("%s: certificate %d, want %d", step.name, serial, step.serial)
			}
		}
		if lines := strings.Count(log.String(), "\n"); lines != step.lines {
			t.Errorf("%s: %d lines of log, want %d:\n%s", step.name, lines, step.lines, &log)
		}
	}
	if strings.Contains(log.String(), "PRIVATE") {
		t.Error("the log holds a key")
	}
}

func TestFilesMustBeGoodAtFirst(t *testing.T) {
	if _, err := Open(FilesConfig{Cert: "none", Key: "none", Log: slog.New(slog.DiscardHandler), Now: time.Now}); err == nil || !strings.HasPrefix(err.Error(), "read certificate: ") {
		t.Errorf("files that are not there: %v", err)
	}
}

// TestReplacedUnderConnections checks that an open connection goes on, and that a
// new one gets the new certificate.
func TestReplacedUnderConnections(t *testing.T) {
	dir := t.TempDir()
	c := FilesConfig{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), Log: slog.New(slog.DiscardHandler)}
	now := time.Now()
	c.Now = func() time.Time { now = now.Add(readAgain); return now } // the files are read for each connection
	put := func(serial int64) {
		t.Helper()
		cert, key := certificatetest.Pair(t, serial, "127.0.0.1")
		if err := os.WriteFile(c.Cert, cert, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.Key, key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	f, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", HTTPS(f.Get))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	echoes := make(chan struct{})
	go func() {
		defer close(echoes)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				b := make([]byte, 1)
				for {
					if _, err := conn.Read(b); err != nil {
						return
					}
					if _, err := conn.Write(b); err != nil {
						return
					}
				}
			}()
		}
	}()
	open := func(want int64) *tls.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true}) // the test compares the certificate itself
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != want {
			t.Errorf("certificate %d, want %d", got, want)
		}
		return conn
	}
	old := open(1)
	put(2)
	open(2)
	b := []byte{7}
	if _, err := old.Write(b); err != nil {
		t.Errorf("the old connection: %v", err)
	}
	if _, err := old.Read(b); err != nil {
		t.Errorf("the old connection: %v", err)
	}
	ln.Close()
	<-echoes
}

// TestExpiryOfHosts: the first of several hosts' certificates counts, whichever was served last.
func TestExpiryOfHosts(t *testing.T) {
	until := map[string]int64{}
	e := new(Expiry)
	get := e.Watch(func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		at, ok := until[strings.ToLower(hello.ServerName)]
		if !ok {
			return nil, os.ErrNotExist
		}
		return &tls.Certificate{Leaf: &x509.Certificate{NotAfter: time.Unix(at, 0)}}, nil
	}, "eu.example.com", "bücher.example")
	const eu, other = "eu.example.com", "xn--bcher-kva.example"
	began := time.Now().Unix()
	failed := int64(-1) // about now
	for _, step := range []struct {
		name    string
		expires map[string]int64
		host    string
		protos  []string
		want    int64
	}{
		{"a name that is not ours", nil, "us.example.com", nil, 0},
		{"no name", nil, "", nil, 0},
		{"a challenge that is not known", nil, eu, []string{"acme-tls/1"}, 0},
		{"none yet", nil, eu, nil, failed},
		{"the first", map[string]int64{eu: 2e9}, eu, nil, 2e9},
		{"another host's, longer", map[string]int64{other: 3e9}, other, nil, 2e9},
		{"the first, renewed", map[string]int64{eu: 4e9}, "EU.example.com", nil, 3e9},
		{"the other's cannot be had any more", map[string]int64{other: 0}, other, nil, 3e9},
		{"the first once more", nil, eu, nil, 3e9},
		{"a name that is not ours, later", nil, "us.example.com", nil, 3e9},
		{"the other, renewed", map[string]int64{other: 5e9}, other, nil, 4e9},
		{"an answer to a challenge", map[string]int64{eu: 1e9}, eu, []string{"acme-tls/1"}, 4e9},
	} {
		for host, at := range step.expires {
			if until[host] = at; at == 0 {
				delete(until, host)
			}
		}
		_, _ = get(&tls.ClientHelloInfo{ServerName: step.host, SupportedProtos: step.protos})
		got := int64(e.Seconds())
		if step.want == failed && (got < began || got > time.Now().Unix()) || step.want != failed && got != step.want {
			t.Errorf("%s: expires at %d, want %d", step.name, got, step.want)
		}
	}
	if len(e.until) != 2 {
		t.Errorf("%d hosts are kept, want the two that are configured", len(e.until))
	}
}
