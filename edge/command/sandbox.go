package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/stealthrocket/wasi-go"
	"github.com/stealthrocket/wasi-go/imports"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"
)

// sandboxConfig configures a run of the sandbox program.
type sandboxConfig struct {
	program, cache, listen string
	control                bool
	stdin                  *os.File // read when control is set
	stdout, stderr         io.Writer
}

func newSandbox() *cobra.Command {
	c := sandboxConfig{stdin: os.Stdin}
	cmd := newCommand("sandbox", "run the whole partner API with data in memory, for a partner's tests", func(cmd *cobra.Command, _ []string) error {
		c.stdout, c.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := c.complete(); err != nil {
			return err
		}
		return c.run(cmd.Context())
	})
	flags := cmd.Flags()
	flags.StringVar(&c.listen, "listen", "127.0.0.1:0", "`ADDR` (address:port) of the partner API; port 0: any free one")
	flags.StringVar(&c.program, "program", "", "`FILE` of the sandbox program (default: sandbox.wasm beside this one)")
	flags.StringVar(&c.cache, "cache", "", "`DIR` of compiled code (default: a folder of the user's cache)")
	flags.BoolVar(&c.control, "control", false, "read commands from standard input: accounts, keys, data, the clock")
	return cmd
}

// complete sets the paths that the flags leave open.
func (c *sandboxConfig) complete() error {
	if c.program == "" {
		self, err := os.Executable()
		if err != nil {
			return hint(fmt.Errorf("finding the sandbox program: %w", err), "name it with --program")
		}
		c.program = filepath.Join(filepath.Dir(self), "sandbox.wasm")
	}
	if c.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return hint(fmt.Errorf("finding the cache: %w", err), "name a folder with --cache")
		}
		c.cache = filepath.Join(dir, "partneredge")
	}
	return nil
}

// run runs the program under wazero until it ends or ctx does.
func (c *sandboxConfig) run(ctx context.Context) (err error) {
	wasm, err := os.ReadFile(c.program)
	if err != nil {
		return hint(fmt.Errorf("reading the sandbox program: %w", err), "run 'make build', or name its file with --program")
	}
	if err := os.MkdirAll(c.cache, 0o700); err != nil {
		return err
	}
	cache, err := wazero.NewCompilationCacheWithDir(c.cache)
	if err != nil {
		return fmt.Errorf("opening the cache: %w", err)
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

	streams, err := c.streams()
	if err != nil {
		return err
	}
	defer streams.close()
	args := []string{"-listen", c.listen}
	if c.control {
		args = append(args, "-control")
		defer func() { _ = syscall.SetNonblock(int(c.stdin.Fd()), false) }() // the program shares the descriptor's state
	}
	system, err := newStoppable(ctx, runtime, compiled, imports.NewBuilder().WithName("sandbox").WithArgs(args...).
		WithStdio(int(streams.stdin.Fd()), int(streams.stdout.Fd()), int(streams.stderr.Fd())))
	if err != nil {
		return err
	}
	defer system.close()
	_, err = runtime.InstantiateModule(system.instance, compiled, wazero.NewModuleConfig())
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		if exit.ExitCode() == 0 {
			return nil
		}
		return fmt.Errorf("the sandbox program ended with status %d", exit.ExitCode())
	}
	return err
}

// stoppable is the WASI of the program. Once ctx is done it ends the program where
// that waits for connections.
type stoppable struct {
	wasi.System
	ctx      context.Context
	instance context.Context // to make instances with
	unhook   func() bool
}

func newStoppable(ctx context.Context, runtime wazero.Runtime, compiled wazero.CompiledModule, b *imports.Builder) (s *stoppable, err error) {
	s = &stoppable{ctx: ctx}
	b.WithSocketsExtension("auto", compiled).WithWrappers(func(inner wasi.System) wasi.System {
		s.System = inner
		return s
	})
	if s.instance, _, err = b.Instantiate(context.WithoutCancel(ctx), runtime); err != nil {
		return nil, fmt.Errorf("making the sandbox program's system: %w", err)
	}
	s.unhook = context.AfterFunc(ctx, func() {
		if inner, ok := s.System.(interface{ Shutdown(context.Context) error }); ok {
			_ = inner.Shutdown(context.WithoutCancel(ctx)) // it wakes the poll
		}
	})
	return s, nil
}

// PollOneOff waits for connections and for timers.
func (s *stoppable) PollOneOff(ctx context.Context, subscriptions []wasi.Subscription, events []wasi.Event) (int, wasi.Errno) {
	n, errno := s.System.PollOneOff(ctx, subscriptions, events)
	if s.ctx.Err() != nil {
		panic(sys.NewExitError(0))
	}
	return n, errno
}

func (s *stoppable) close() {
	s.unhook()
	_ = s.System.Close(context.WithoutCancel(s.ctx))
}

// streams are the program's standard descriptors, and the goroutines that copy
// from them.
type streams struct {
	stdin, stdout, stderr *os.File
	opened                []*os.File
	written               []*os.File // ends of pipes, which the goroutines must see closed
	copies                sync.WaitGroup
}

func (c *sandboxConfig) streams() (*streams, error) {
	s := &streams{stdin: c.stdin}
	var err error
	if !c.control {
		if s.stdin, err = os.Open(os.DevNull); err != nil {
			return nil, err
		}
		s.opened = append(s.opened, s.stdin)
	}
	if s.stdout, err = s.pipe(c.stdout); err == nil {
		s.stderr, err = s.pipe(c.stderr)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// pipe returns a file, and copies what is written to it to w.
func (s *streams) pipe(w io.Writer) (*os.File, error) {
	r, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.opened, s.written = append(s.opened, r), append(s.written, out)
	s.copies.Go(func() { _, _ = io.Copy(w, r) })
	return out, nil
}

// close waits until all that was written is copied. The program must have ended.
func (s *streams) close() {
	for _, f := range s.written {
		_ = f.Close()
	}
	s.copies.Wait()
	for _, f := range s.opened {
		_ = f.Close()
	}
}
