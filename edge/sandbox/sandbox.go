// Package sandbox runs the whole partner API as one WASI program, for a partner's tests:
// data in memory, no origin, and nothing outside it but the port that it listens on.
// Beside the program it serves commands over HTTP, and delivers the events that they
// make happen.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/stealthrocket/wasi-go/imports"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"

	"partneredge/edge/hint"
)

// Config configures a run of the sandbox program.
type Config struct {
	Program string          // file of the program
	Cache   string          // folder of compiled code, made if there is none
	Listen  string          // address of the partner API; port 0: any free one
	Control string          // "": no commands, OnStdin, or the address at which they come over HTTP
	Forward string          // URL that events are posted to; "": none
	Retries []time.Duration // of Forward; nil: those of the service
	Stdin   *os.File        // read for commands on standard input
	Stdout  io.Writer
	Stderr  io.Writer
}

// OnStdin is the Control of commands on standard input, one line of JSON each.
const OnStdin = "-"

// Run runs the program under wazero until it ends or ctx does.
func Run(ctx context.Context, c Config) (err error) {
	if c.Listen, err = checkListen(c.Listen); err != nil {
		return err
	}
	wasm, err := os.ReadFile(c.Program)
	if err != nil {
		return hint.Add(fmt.Errorf("reading the sandbox program: %w", err), "run 'make build', or name its file with --program")
	}
	cache, err := wazero.NewCompilationCacheWithDir(c.Cache)
	if err != nil {
		return hint.Add(fmt.Errorf("opening the cache: %w", err), "name a folder that can be written to with --cache")
	}
	// The program outlives ctx, so that stoppable can end it where it waits.
	running := context.WithoutCancel(ctx)
	defer func() { err = errors.Join(err, cache.Close(running)) }()
	runtime := wazero.NewRuntimeWithConfig(running, wazero.NewRuntimeConfig().WithCompilationCache(cache))
	defer func() { err = errors.Join(err, runtime.Close(running)) }()
	compiled, err := runtime.CompileModule(running, wasm)
	if err != nil {
		return fmt.Errorf("compiling the sandbox program: %w", err)
	}

	docs, removeDocs, err := writeDocs()
	if err != nil {
		return err
	}
	defer removeDocs()
	streams, err := c.streams()
	if err != nil {
		return err
	}
	defer streams.close()
	if c.overHTTP() {
		if ctx, err = c.startControl(ctx, streams); err != nil {
			return err
		}
	}
	system, err := c.system(ctx, runtime, compiled, docs, streams)
	if err != nil {
		return err
	}
	defer system.close()
	if c.Control == OnStdin {
		defer func() { _ = syscall.SetNonblock(int(c.Stdin.Fd()), false) }() // the program shares the descriptor's state
	}
	_, err = runtime.InstantiateModule(system.instance, compiled, wazero.NewModuleConfig())
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		if exit.ExitCode() == 0 {
			return failureOf(ctx)
		}
		return fmt.Errorf("the sandbox program ended with status %d", exit.ExitCode())
	}
	return err
}

// checkListen reports early, and in words that help, that the program could not listen on
// addr. It returns addr without names, which the program cannot look up.
func checkListen(addr string) (string, error) {
	host, service, err := net.SplitHostPort(addr)
	port := 0
	if err == nil {
		port, err = net.LookupPort("tcp", service)
	}
	if err != nil {
		return "", hint.Add(fmt.Errorf("listening for the partner API: %w", err), "--listen takes an address such as 127.0.0.1:8080")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", hint.Add(fmt.Errorf("listening for the partner API: %w", err), "choose another --listen address; port 0 is any free one")
	}
	if at, ok := l.Addr().(*net.TCPAddr); ok && host != "" && net.ParseIP(host) == nil {
		host = at.AddrPort().Addr().String()
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), l.Close()
}

// system returns the WASI of a run over streams. All that the program sees of the disk
// is the folder of its pages, which is made for this run and removed after it.
func (c *Config) system(ctx context.Context, runtime wazero.Runtime, compiled wazero.CompiledModule, docs string, s *streams) (*stoppable, error) {
	args := []string{"-listen", c.Listen, "-docs", docs}
	if c.Control != "" {
		args = append(args, "-control")
	}
	return newStoppable(ctx, runtime, compiled, imports.NewBuilder().WithName("sandbox").WithArgs(args...).
		WithDirs(filepath.Dir(docs)).
		WithStdio(int(s.stdin.Fd()), int(s.stdout.Fd()), int(s.stderr.Fd())))
}
