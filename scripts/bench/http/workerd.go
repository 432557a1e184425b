package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

// startWorkerd starts as many processes of workerd as there are processors, since each
// runs JavaScript on one. They speak plain HTTP.
func (b *bench) startWorkerd(ctx context.Context, _ bool) (*server, error) {
	if _, err := os.Stat(b.workerd); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotInstalled, err)
	}
	var processes []*fleet.Process
	s := &server{keys: keys{live: []string{workerKey}}, stop: func() {
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
		last = asksWorkerd(ctx, addr)
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
func asksWorkerd(ctx context.Context, addr string) error {
	s := &server{addrs: []string{addr}, keys: keys{live: []string{workerKey}}}
	conn, err := s.dial(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return ask(conn, bufio.NewReader(conn), me.text(s, 0), me)
}
