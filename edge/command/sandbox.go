package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/stealthrocket/wasi-go"
	"github.com/stealthrocket/wasi-go/imports"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"
)

// sandboxConfig configures a run of the sandbox program.
type sandboxConfig struct {
	program, cache, listen string
	control                string          // "": none, onStdin, or the address of the HTTP face
	forward                string          // URL that events are posted to; "": none
	retries                []time.Duration // of forward; nil: those of the service
	stdin                  *os.File        // read for commands on standard input
	stdout, stderr         io.Writer
}

// onStdin is the value of a --control without an address.
const onStdin = "-"

func newSandbox() *cobra.Command {
	c := sandboxConfig{stdin: os.Stdin}
	cmd := newCommand("sandbox [--control [ADDR]] [--forward URL]", "run the whole partner API with data in memory, for a partner's tests", func(cmd *cobra.Command, args []string) error {
		c.stdout, c.stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
		if err := c.complete(cmd, args); err != nil {
			return err
		}
		return c.run(cmd.Context())
	})
	cmd.Args = cobra.ArbitraryArgs // complete judges them
	flags := cmd.Flags()
	flags.StringVar(&c.listen, "listen", "127.0.0.1:0", "`ADDR` (address:port) of the partner API; port 0: any free one")
	flags.StringVar(&c.program, "program", "", "`FILE` of the sandbox program (default: sandbox.wasm in ../lib/edge, or beside this one)")
	flags.StringVar(&c.cache, "cache", "", "`DIR` of compiled code (default: a folder of the user's cache)")
	flags.StringVar(&c.control, "control", "", "take commands (accounts, keys, data, the clock) over HTTP on `ADDR`, without a host on loopback; without ADDR from standard input")
	flags.Lookup("control").NoOptDefVal = onStdin
	flags.StringVar(&c.forward, "forward", "", "`URL` that events are posted to, signed, in place of the subscriptions' own")
	flags.DurationSliceVar(&c.retries, "retries", nil, "`DURATIONS` by comma between the tries of --forward (default 5s,30s,180s, as the service's)")
	return cmd
}

// complete sets the paths that the flags leave open.
func (c *sandboxConfig) complete(cmd *cobra.Command, args []string) error {
	if c.control == onStdin && len(args) > 0 { // --control takes its address with a space too
		c.control, args = args[0], args[1:]
	}
	if c.forward != "" && c.control == "" {
		c.control = "127.0.0.1:0" // without commands nothing happens
	}
	switch {
	case len(args) > 0:
		return misused(cmd, "unexpected argument %q", args[0])
	case c.forward != "" && !isHTTP(c.forward):
		return misused(cmd, "--forward %q is no address such as http://localhost:3000/hook", c.forward)
	case c.forward != "" && c.control == onStdin:
		return misused(cmd, "--forward needs --control ADDR, or none: not commands on standard input")
	case c.retries != nil && c.forward == "":
		return misused(cmd, "--retries goes with --forward")
	}
	if c.program == "" {
		var err error
		if c.program, err = installed("sandbox.wasm"); err != nil {
			return hint(fmt.Errorf("finding the sandbox program: %w", err), "name it with --program")
		}
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
	if c.control == onStdin {
		defer func() { _ = syscall.SetNonblock(int(c.stdin.Fd()), false) }() // the program shares the descriptor's state
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

// system returns the WASI of a run over streams. All that the program sees of the disk
// is the folder of its pages, which is made for this run and removed after it.
func (c *sandboxConfig) system(ctx context.Context, runtime wazero.Runtime, compiled wazero.CompiledModule, docs string, s *streams) (*stoppable, error) {
	args := []string{"-listen", c.listen, "-docs", docs}
	if c.control != "" {
		args = append(args, "-control")
	}
	return newStoppable(ctx, runtime, compiled, imports.NewBuilder().WithName("sandbox").WithArgs(args...).
		WithDirs(filepath.Dir(docs)).
		WithStdio(int(s.stdin.Fd()), int(s.stdout.Fd()), int(s.stderr.Fd())))
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
