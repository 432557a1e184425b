package hosttest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"partneredge/host/engine"
	"partneredge/host/hosttest"
)

// counted is an engine that compiles and loads nothing, and counts what it is asked for.
type counted struct {
	engine.Engine
	compiled, loaded, closed int
}

var errModule = errors.New("no module")

func (c *counted) Compile(_ context.Context, wasm []byte) (engine.Code, error) {
	if len(wasm) == 0 {
		return nil, errModule
	}
	c.compiled++
	return countedCode{of: c}, nil
}

func (c *counted) Load(_ context.Context, sum [sha256.Size]byte) engine.Code {
	if sum == [sha256.Size]byte{} {
		return nil
	}
	c.loaded++
	return countedCode{of: c}
}

func (c *counted) Close(context.Context) error {
	c.closed++
	return nil
}

type countedCode struct {
	engine.Code
	of *counted
}

func (c countedCode) Close(context.Context) error {
	c.of.closed++
	return nil
}

func TestSharedCompilesAndLoadsOnce(t *testing.T) {
	ctx, inner, made := t.Context(), &counted{}, 0
	shared := hosttest.Share(func(context.Context, engine.Config) (engine.Engine, error) {
		made++
		return inner, nil
	}, "")
	for range 3 {
		e, err := shared.New(ctx, engine.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, wasm := range []string{"one", "two", "one"} {
			code, err := e.Compile(ctx, []byte(wasm))
			if err != nil {
				t.Fatal(err)
			}
			if err := code.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
		code := e.Load(ctx, [sha256.Size]byte{3})
		if code == nil {
			t.Fatal("a module that was kept is not loaded")
		}
		if err := code.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if code := e.Load(ctx, [sha256.Size]byte{}); code != nil {
			t.Error("a module that was not kept is loaded")
		}
		if _, err := e.Compile(ctx, nil); !errors.Is(err, errModule) {
			t.Errorf("a module that is none: %v", err)
		}
		if err := e.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if made != 1 || inner.compiled != 2 || inner.loaded != 1 || inner.closed != 0 {
		t.Errorf("%d engines compiled %d modules, loaded %d and closed %d things, want 1, 2, 1 and 0", made, inner.compiled, inner.loaded, inner.closed)
	}
	if err := shared.Close(ctx); err != nil || inner.closed != 1 {
		t.Errorf("closed %d things, %v, want the engine", inner.closed, err)
	}
}
