package sandbox

import (
	"context"
	"fmt"

	"github.com/stealthrocket/wasi-go"
	"github.com/stealthrocket/wasi-go/imports"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"
)

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
