package engine

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// Limit returns an engine that compiles one module at a time, since each may take much
// memory, and gives up one that takes longer than limit, however many functions it has.
// Modules that e can load are loaded side by side.
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

// Compile implements Engine. The limit begins when it is the module's turn.
func (e *limited) Compile(ctx context.Context, wasm []byte) (Code, error) {
	if code := e.Load(ctx, sha256.Sum256(wasm)); code != nil {
		return code, nil
	}
	select {
	case e.compiles <- struct{}{}:
		defer func() { <-e.compiles }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.limit, e.over)
	defer cancel()
	return e.Engine.Compile(ctx, wasm)
}
