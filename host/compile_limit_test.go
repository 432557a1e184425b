//go:build !wasmtime

package host

import (
	"context"
	"runtime"
	"strings"
	"testing"
)

// TestCompileEnds holds that a module which takes too long to compile is given up between
// two of its functions, where a node has one processor as well.
func TestCompileEnds(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ctx := t.Context()
	r, err := New(ctx, Config{compileLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	wasm := assembled(answerWith(asm(num(0))), asm())
	if _, err := r.Open(ctx, wasm, Manifest{Name: "slow"}, Capabilities{}, Limits{}); err == nil || !strings.Contains(err.Error(), "it takes longer than 1ns to compile") {
		t.Errorf("compiled after its time: %v", err)
	}
}
