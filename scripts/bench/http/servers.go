package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"partneredge/edge/adminapi"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
	"partneredge/store/ratelimit"
)

// server serves agents/me at each of addrs, for each of keys. Connections are spread
// evenly over both.
type server struct {
	name  string
	addrs []string // one a process
	keys  []string
	stop  func()

	peaks, p99s []float64 // of each round: requests a second, and seconds
}

// readyFile holds the hello of the plain Go server, in its directory.
const readyFile = "native.json"

// hello describes the plain Go server.
type hello struct {
	Addr string
	Keys []string
}

// keysInUse is how many keys share the load: the highest limit that a key can
// have, ratelimit.MaxLimit a minute, is less than a server may answer.
const keysInUse = 8

var errNotInstalled = errors.New("not installed")

// stop ends a process, and waits for that.
func stop(process *fleet.Process) {
	if err := process.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-http:", err)
	}
}

func (b *bench) startNative(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.Dir, "native")
	process := &fleet.Process{Ready: filepath.Join(dir, readyFile)}
	var h hello
	if err := process.Start(ctx, &h, self, "-native", dir); err != nil {
		return nil, err
	}
	return &server{addrs: []string{h.Addr}, keys: h.Keys, stop: func() { stop(process) }}, nil
}

// startNode starts origin and node, and makes keys that may be called often
// enough.
func (b *bench) startNode(ctx context.Context) (*server, error) {
	data := filepath.Join(b.Dir, "node")
	var dev struct {
		Origin struct {
			AdminURL   string `json:"admin_url"`
			AdminToken string `json:"admin_token"`
		} `json:"origin"`
		Nodes []struct {
			BaseURL string `json:"base_url"`
		} `json:"nodes"`
		AccountID string `json:"account_id"`
	}
	process := &fleet.Process{Ready: filepath.Join(data, "dev.json")}
	if err := process.Start(ctx, &dev, b.edge, "dev", "--data", data, "--port", "0"); err != nil {
		return nil, err
	}
	s := &server{stop: func() { stop(process) }}
	base, err := url.Parse(dev.Nodes[0].BaseURL)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.addrs = []string{base.Host}

	admin := fleet.Admin{Client: adminapi.Client{URL: dev.Origin.AdminURL, Token: dev.Origin.AdminToken}}
	for range keysInUse {
		_, key, err := admin.Key(ctx, dev.AccountID, ratelimit.MaxLimit)
		if err != nil {
			s.stop()
			return nil, fmt.Errorf("make a key: %w", err)
		}
		s.keys = append(s.keys, key)
	}
	return s, nil
}

// startWorkerd starts as many processes of workerd as there are processors, since each
// runs JavaScript on one.
func (b *bench) startWorkerd(ctx context.Context) (*server, error) {
	if _, err := os.Stat(b.workerd); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotInstalled, err)
	}
	var processes []*fleet.Process
	s := &server{keys: []string{workerKey}, stop: func() {
		for _, process := range processes {
			process.Kill()
		}
	}}
	for i := range runtime.NumCPU() {
		process := &fleet.Process{}
		addr, err := b.startWorker(ctx, process, filepath.Join(b.Dir, fmt.Sprint("workerd", i)))
		processes = append(processes, process)
		if err != nil {
			s.stop()
			return nil, err
		}
		s.addrs = append(s.addrs, addr)
	}
	return s, nil
}

// startWorker starts a process of workerd with its files in home, and returns its
// address once it serves.
func (b *bench) startWorker(ctx context.Context, process *fleet.Process, home string) (addr string, err error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	for name, content := range map[string]string{"worker.js": workerJS, "config.capnp": fmt.Sprintf(workerConfig, port)} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	if err := process.Begin(ctx, b.workerd, "serve", filepath.Join(home, "config.capnp")); err != nil {
		return "", err
	}
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	var last error
	err = harness.Poll(ctx, "workerd to serve", func() (bool, error) {
		last = asksWorkerd(addr)
		return last == nil, nil
	})
	if err != nil {
		return "", errors.Join(err, last)
	}
	return addr, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// asksWorkerd sends one request.
func asksWorkerd(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET /api/v2/public/agents/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", workerKey); err != nil {
		return err
	}
	return readAnswer(bufio.NewReader(conn))
}
