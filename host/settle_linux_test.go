//go:build !wasmtime

package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
)

// closed reports whether a channel that nothing is sent to is closed.
func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestSettle moves machine code while it runs, of modules that are opened and closed
// meanwhile.
func TestSettle(t *testing.T) {
	log := &LogBuffer{}
	r, err := New(t.Context(), Config{CacheDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(context.Background()) }()
	const modules, calls = 4, 300
	var all sync.WaitGroup
	for n := range modules {
		all.Go(func() {
			wasm := answeringNumber(num(n))
			for range 3 {
				m, err := r.Open(t.Context(), wasm, Manifest{Name: fmt.Sprint("module", n)}, Capabilities{}, Limits{})
				if err != nil {
					t.Error(err)
					return
				}
				want, err := ask(m, "/", "")
				if err != nil {
					t.Error(err)
				}
				settled := make(chan struct{})
				all.Go(func() {
					defer close(settled)
					r.Settle(t.Context())
				})
				for called := 0; called < calls || !closed(settled); called++ {
					if got, err := ask(m, "/", ""); got != want || err != nil {
						t.Errorf("answered %q, %v, want %q", got, err, want)
						break
					}
				}
				m.Close(context.Background())
			}
		})
	}
	all.Wait()
	if log.Count("machine code mapped from the cache") == 0 || log.Count("stays in memory") != 0 {
		t.Errorf("logged: %s", log)
	}
}
