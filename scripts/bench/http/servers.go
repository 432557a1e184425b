package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
	"partneredge/store/ratelimit"
)

// server serves the API at each of addrs, for each of the keys. Connections are spread
// evenly over both.
type server struct {
	name  string
	addrs []string // one a process
	tls   bool
	brief bool // another host: it is measured for a shorter time
	keys
	pid  int // 0: it has several processes
	stop func()

	peaks, p99s, cpu []float64            // of each round: requests a second, seconds, microseconds a request
	others           map[string][]float64 // requests a second, of each round, by the request's name
}

// keys that a server knows.
type keys struct{ live, test, slow []string }

// cpuTime returns the processor time that the server has used, 0 where that is not
// known.
func (s *server) cpuTime() (time.Duration, error) {
	if s.pid == 0 {
		return 0, nil
	}
	return harness.CPUTime(s.pid)
}

// readyFile holds the hello of the plain Go server, in its directory.
const readyFile = "native.json"

// hello describes the plain Go server.
type hello struct {
	URL              string
	Live, Test, Slow []string
}

// keysInUse is the number of keys that share the load: the highest limit that a key can
// have, ratelimit.MaxLimit a minute, is less than a server may answer.
const keysInUse = 8

// slowLimit is the limit of the key that is over it, requests a minute.
const slowLimit = 1

// insights are as many as a page holds at most and a node keeps.
const insights = 50

var errNotInstalled = errors.New("not installed")

// stop ends a process, and waits for that.
func stop(process *fleet.Process) {
	if err := process.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-http:", err)
	}
}

// tlsFlags returns the flags by which both servers are given the bench's certificate;
// none without TLS.
func (b *bench) tlsFlags(tls bool) ([]string, error) {
	if !tls {
		return nil, nil
	}
	cert, key, err := b.certificate()
	return []string{"--tls-cert", cert, "--tls-key", key}, err
}

// serverOf returns the server that a process runs at base, and stops the process if it
// is none.
func serverOf(process *fleet.Process, base string, tls bool, known keys) (*server, error) {
	at, err := url.Parse(base)
	if err != nil {
		stop(process)
		return nil, err
	}
	return &server{addrs: []string{at.Host}, tls: tls, keys: known, pid: process.PID(), stop: func() { stop(process) }}, nil
}

// certificate writes a certificate and its key, once, and returns their files.
func (b *bench) certificate() (cert, key string, err error) {
	cert, key = filepath.Join(b.Dir, "cert.pem"), filepath.Join(b.Dir, "key.pem")
	if _, err := os.Stat(key); err == nil {
		return cert, key, nil
	}
	made, err := harness.NewCertificate()
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		return "", "", err
	}
	err = os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}), 0o600)
	return cert, key, cmp.Or(err, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

// startNative starts the plain Go server.
func (b *bench) startNative(ctx context.Context, tls bool) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.Dir, fmt.Sprint("native-", tls))
	flags, err := b.tlsFlags(tls)
	if err != nil {
		return nil, err
	}
	process := &fleet.Process{Ready: filepath.Join(dir, readyFile)}
	var h hello
	if err := process.Start(ctx, &h, self, append([]string{"-native", dir}, flags...)...); err != nil {
		return nil, err
	}
	return serverOf(process, h.URL, tls, keys{h.Live, h.Test, h.Slow})
}

// originProcess is the origin of the nodes, with the keys that the bench calls with.
type originProcess struct {
	fleet.OriginProcess
	keys keys
}

// startOrigin starts an origin with an account that has insights, and keys that may
// be called often enough.
func (b *bench) startOrigin(ctx context.Context) error {
	c := new(originProcess)
	if err := c.Launch(ctx, b.edge, filepath.Join(b.Dir, "origin")); err != nil {
		return err
	}
	b.origin = c
	account, err := c.Admin.Account(ctx)
	if err != nil {
		return err
	}
	run := make([]adminapi.NewInsight, insights)
	for i := range run {
		run[i] = adminapi.NewInsight{Headline: new(headline(i)), Detail: new(detail)}
	}
	if err := c.Admin.Call(ctx, http.MethodPost, "/accounts/"+account+"/coaching-runs", adminapi.NewCoachingRun{Insights: &run}, nil); err != nil {
		return err
	}
	for _, k := range []struct {
		environment string
		limit       int64
		number      int
		into        *[]string
	}{{"live", ratelimit.MaxLimit, keysInUse, &c.keys.live}, {"test", ratelimit.MaxLimit, keysInUse, &c.keys.test}, {"live", slowLimit, 1, &c.keys.slow}} {
		for range k.number {
			made, err := c.Admin.CreateKey(ctx, account, adminapi.NewKey{Environment: &k.environment, RateLimit: &k.limit, Scopes: adminapi.Scopes()})
			if err != nil {
				return fmt.Errorf("make a key: %w", err)
			}
			*k.into = append(*k.into, made.Plaintext)
		}
	}
	return nil
}

// Texts of the insights, at every server.
func headline(i int) string { return fmt.Sprintf("Call back the %d leads of last week", i+2) }

const detail = "Three of them asked for a viewing and have not heard from you since. A call within a day doubles the chance."

// startNode returns a function that starts a node of a program under a name, in a process
// without its origin.
func (b *bench) startNode(program, name string) func(context.Context, bool) (*server, error) {
	return func(ctx context.Context, tls bool) (*server, error) {
		if b.origin == nil {
			if err := b.startOrigin(ctx); err != nil {
				return nil, fmt.Errorf("start origin: %w", err)
			}
		}
		data := filepath.Join(b.Dir, name)
		credentials, err := b.origin.Admin.Enrol(ctx, data, name)
		if err != nil {
			return nil, err
		}
		flags, err := b.tlsFlags(tls)
		if err != nil {
			return nil, err
		}
		args := append([]string{"node", "--data", data, "--region", name, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
			"--origin", b.origin.NATS, "--credentials", credentials, "--cache", filepath.Join(b.Dir, "cache")}, flags...)
		var at struct {
			BaseURL string `json:"base_url"`
		}
		process := &fleet.Process{Ready: filepath.Join(data, "node.json")}
		if err := process.Start(ctx, &at, program, args...); err != nil {
			return nil, err
		}
		return serverOf(process, at.BaseURL, tls, b.origin.keys)
	}
}
