package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"partneredge/scripts/fleet"
	"partneredge/store/ratelimit"
)

// server is a process that serves agents/me at addr for each of keys.
type server struct {
	addr    string
	keys    []string
	process *exec.Cmd
}

// hello is what the plain Go server says of itself.
type hello struct {
	Addr string
	Keys []string
}

// keysInUse is how many keys share the load: the highest limit that a key can
// have, ratelimit.MaxLimit a minute, is less than a server may answer.
const keysInUse = 8

var errNotInstalled = errors.New("not installed")

func (s *server) stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait()
}

func startNative(ctx context.Context, dir string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, self, "-native", filepath.Join(dir, "native"))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{process: process}
	var h hello
	if err := json.NewDecoder(out).Decode(&h); err != nil {
		s.stop()
		return nil, fmt.Errorf("read its address: %w", err)
	}
	s.addr, s.keys = h.Addr, h.Keys
	return s, nil
}

// startNode starts origin and node, and makes keys that may be called often
// enough.
func startNode(ctx context.Context, program, dir string) (*server, error) {
	data := filepath.Join(dir, "node")
	process := exec.CommandContext(ctx, program, "dev", "--data", data, "--port", "0")
	process.Stderr = os.Stderr
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{process: process}
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
	err := until(ctx, func() error {
		b, err := os.ReadFile(filepath.Join(data, "dev.json"))
		if err != nil {
			return err
		}
		return json.Unmarshal(b, &dev)
	})
	if err != nil {
		s.stop()
		return nil, err
	}
	base, err := url.Parse(dev.Nodes[0].BaseURL)
	if err != nil {
		s.stop()
		return nil, err
	}
	s.addr = base.Host

	admin := fleet.Admin{URL: dev.Origin.AdminURL, Token: dev.Origin.AdminToken, Client: http.DefaultClient}
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

func startWorkerd(ctx context.Context, program, dir string) (*server, error) {
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotInstalled, err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "workerd")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	for name, content := range map[string]string{"worker.js": workerJS, "config.capnp": fmt.Sprintf(workerConfig, port)} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	process := exec.CommandContext(ctx, program, "serve", filepath.Join(home, "config.capnp"))
	var said bytes.Buffer
	process.Stderr = &said
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{addr: fmt.Sprintf("127.0.0.1:%d", port), keys: []string{workerKey}, process: process}
	err = until(ctx, func() error {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprintf(conn, "GET /api/v2/public/agents/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", workerKey); err != nil {
			return err
		}
		return readAnswer(bufio.NewReader(conn))
	})
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%w: %s", err, said.String())
	}
	return s, nil
}

// until tries ready again and again, for two minutes at most.
func until(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until it serves: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
