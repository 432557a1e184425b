package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"partneredge/host/engine"
)

// compiler counts what is compiled and closed. It stands for an engine.
type compiler struct {
	engine.Engine
	mu       sync.Mutex
	compiled map[string]int
	open     map[string]int
	fails    bool
}

func newCompiler() *compiler { return &compiler{compiled: map[string]int{}, open: map[string]int{}} }

type code struct {
	engine.Code
	of   *compiler
	name string
}

var errCompile = errors.New("it does not compile")

func (c *compiler) Compile(_ context.Context, wasm []byte) (engine.Code, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fails {
		return nil, errCompile
	}
	c.compiled[string(wasm)]++
	c.open[string(wasm)]++
	return &code{of: c, name: string(wasm)}, nil
}

func (c *code) Close(context.Context) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.open[c.name]--
	return nil
}

// TestShares: whatever is opened and closed in whatever order, a module is compiled
// once, and its code is there, while one of its equals is open, and not afterwards.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCompiler()
		e := engine.Share(c)
		open := map[string][]engine.Code{}
		t.Repeat(map[string]func(*rapid.T){
			"compile": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "module")
				before := c.compiled[name]
				got, err := e.Compile(t.Context(), []byte(name))
				if err != nil {
					t.Fatal(err)
				}
				if again := c.compiled[name] > before; again != (len(open[name]) == 0) {
					t.Fatalf("compiled again: %v, while %d are open", again, len(open[name]))
				}
				open[name] = append(open[name], got)
			},
			"fail": func(t *rapid.T) {
				c.fails = true
				defer func() { c.fails = false }()
				if _, err := e.Compile(t.Context(), []byte("three")); !errors.Is(err, errCompile) {
					t.Fatal(err)
				}
			},
			"close": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "module")
				if len(open[name]) == 0 {
					t.Skip("none is open")
				}
				i := rapid.IntRange(0, len(open[name])-1).Draw(t, "which")
				if err := open[name][i].Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				open[name] = append(open[name][:i], open[name][i+1:]...)
			},
			"": func(t *rapid.T) {
				for name, of := range open {
					if want := min(len(of), 1); c.open[name] != want {
						t.Fatalf("module %s: %d codes are there for %d modules", name, c.open[name], len(of))
					}
				}
			},
		})
	})
}

// TestSharesAtATime has many goroutines open and close equal modules, some of which do
// not want them any more.
func TestSharesAtATime(t *testing.T) {
	c := newCompiler()
	e := engine.Share(c)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(2) == 0 {
					cancel()
				}
				got, err := e.Compile(ctx, []byte{byte(rand.IntN(2))})
				cancel()
				if errors.Is(err, context.Canceled) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := got.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for name, n := range c.open {
		if n != 0 {
			t.Errorf("module %q: %d codes are left", name, n)
		}
	}
}
