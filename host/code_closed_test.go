//go:build !wasmtime

package host

import (
	"context"
	"testing"

	"partneredge/host/engine"
)

// closing is an engine that counts how much of its code is open.
type closing struct {
	engine.Engine
	open int
}

func (e *closing) Compile(ctx context.Context, wasm []byte) (engine.Code, error) {
	code, err := e.Engine.Compile(ctx, wasm)
	if err == nil {
		e.open++
		code = closingCode{code, e}
	}
	return code, err
}

type closingCode struct {
	engine.Code
	of *closing
}

func (c closingCode) Close(ctx context.Context) error {
	c.of.open--
	return c.Code.Close(ctx)
}

// TestCodeWithoutAnImageIsClosed: of a module that compiles, and whose start or warm-up then
// fails, no code stays in memory.
func TestCodeWithoutAnImageIsClosed(t *testing.T) {
	ctx := context.Background()
	e := &closing{}
	r, err := New(ctx, Config{Engine: func(ctx context.Context, config engine.Config) (made engine.Engine, err error) {
		e.Engine, err = defaultEngine()(ctx, config)
		return e, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(ctx) }()
	const unreachable = 0x00
	for name, wasm := range map[string][]byte{
		"start":   assembled(answerWith(asm(num(0))), asm(unreachable)),
		"warm-up": assembled(asm(unreachable), asm()),
	} {
		if m, err := r.Open(ctx, wasm, Manifest{Name: "failing", Warmup: []Warmup{{Method: "GET", Path: "/"}}}, Capabilities{}, Limits{}); err == nil {
			t.Errorf("%s fails, and the module is opened", name)
			m.Close(ctx)
		}
		if e.open != 0 {
			t.Fatalf("%s fails: the code of %d modules is open", name, e.open)
		}
	}
	m, err := r.Open(ctx, assembled(answerWith(asm(num(0))), asm()), Manifest{Name: "good"}, Capabilities{}, Limits{})
	if err != nil || e.open != 1 {
		t.Fatalf("%d modules are open, %v", e.open, err)
	}
	m.Close(ctx)
	if e.open != 0 {
		t.Error("the code of a module that is closed is open")
	}
}
