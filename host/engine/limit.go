package engine

import (
	"context"
	"fmt"
	"time"
)

// Limit returns an engine that compiles one module at a time, since each may take much
// memory, and gives up one that takes longer than limit, however many functions it has.
// Modules that e keeps compiled, where it is a Keeper, are loaded side by side.
func Limit(e Engine, limit time.Duration) Engine {
	return &limited{Engine: e, limit: limit, compiles: make(chan struct{}, 1),
		over: fmt.Errorf("it takes longer than %v to compile", limit)}
}

type limited struct {
	Engine
	limit    time.Duration
	over     error
	compiles chan struct{} // of one slot
}

// Keeper is an Engine that keeps what it compiled.
type Keeper interface {
	// Keeps reports whether Compile can be expected to load the module.
	Keeps(wasm []byte) bool
}

// Compile implements Engine. The limit begins when it is the module's turn.
func (e *limited) Compile(ctx context.Context, wasm []byte) (Code, error) {
	if k, ok := e.Engine.(Keeper); !ok || !k.Keeps(wasm) {
		select {
		case e.compiles <- struct{}{}:
			defer func() { <-e.compiles }()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.limit, e.over)
	defer cancel()
	return e.Engine.Compile(ctx, wasm)
}
