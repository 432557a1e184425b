package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
)

// Share returns an engine that compiles equal modules once, as long as one of them is
// open: most modules of a release are those of the release before.
func Share(e Engine) Engine {
	return &sharing{Engine: e, codes: map[[sha256.Size]byte]*sharedCode{}}
}

type sharing struct {
	Engine
	mu    sync.Mutex
	codes map[[sha256.Size]byte]*sharedCode // of modules that are open, or being compiled
}

// sharedCode is the code of equal modules.
type sharedCode struct {
	Code     // nil until it is compiled
	engine   *sharing
	sum      [sha256.Size]byte
	users    int           // guarded by engine.mu
	compiles chan struct{} // of one slot, which guards Code until it is set
}

// Compile implements Engine.
func (e *sharing) Compile(ctx context.Context, wasm []byte) (Code, error) {
	return e.share(ctx, sha256.Sum256(wasm), func() (Code, error) { return e.Engine.Compile(ctx, wasm) })
}

// Load implements Engine.
func (e *sharing) Load(ctx context.Context, sum [sha256.Size]byte) Code {
	code, _ := e.share(ctx, sum, func() (Code, error) { return e.Engine.Load(ctx, sum), nil })
	return code
}

// share returns the code that an equal module has, or else get's. Of two equal modules
// at a time the second waits for the first, no longer than ctx lasts, and gets the code
// itself where the first could not.
func (e *sharing) share(ctx context.Context, sum [sha256.Size]byte, get func() (Code, error)) (Code, error) {
	c := e.use(sum)
	select {
	case c.compiles <- struct{}{}:
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), c.Close(context.WithoutCancel(ctx)))
	}
	defer func() { <-c.compiles }()
	if c.Code == nil {
		code, err := get()
		if code == nil || err != nil {
			e.leave(c)
			return nil, err
		}
		c.Code = code
	}
	return c, nil
}

func (e *sharing) use(sum [sha256.Size]byte) *sharedCode {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.codes[sum]
	if c == nil {
		c = &sharedCode{engine: e, sum: sum, compiles: make(chan struct{}, 1)}
		e.codes[sum] = c
	}
	c.users++
	return c
}

// leave reports whether nobody uses c any more.
func (e *sharing) leave(c *sharedCode) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.users--
	if c.users > 0 {
		return false
	}
	delete(e.codes, c.sum)
	return true
}

// Close implements Code. Each module that was compiled is closed once.
func (c *sharedCode) Close(ctx context.Context) error {
	if !c.engine.leave(c) || c.Code == nil {
		return nil
	}
	return c.Code.Close(ctx)
}
