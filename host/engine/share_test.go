package engine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"partneredge/host/engine"
)

// compiler counts what is compiled or loaded, and closed. It stands for an engine.
type compiler struct {
	engine.Engine
	mu     sync.Mutex
	gotten map[string]int
	open   map[string]int
	kept   map[[sha256.Size]byte]string
	fails  bool
}

func newCompiler() *compiler {
	return &compiler{gotten: map[string]int{}, open: map[string]int{}, kept: map[[sha256.Size]byte]string{}}
}

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
	c.kept[sha256.Sum256(wasm)] = string(wasm)
	return c.get(string(wasm)), nil
}

func (c *compiler) Load(_ context.Context, sum [sha256.Size]byte) engine.Code {
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.kept[sum]; ok {
		return c.get(name)
	}
	return nil
}

func (c *compiler) get(name string) *code {
	c.gotten[name]++
	c.open[name]++
	return &code{of: c, name: name}
}

func (c *code) Close(context.Context) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.open[c.name]--
	return nil
}

// TestShares: whatever is opened and closed in whatever order, a module is compiled or
// loaded once, and its code is there, while one of its equals is open, and not afterwards.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCompiler()
		e := engine.Share(c)
		open := map[string][]engine.Code{}
		t.Repeat(map[string]func(*rapid.T){
			"compile": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "module")
				before := c.gotten[name]
				got, err := e.Compile(t.Context(), []byte(name))
				if err != nil {
					t.Fatal(err)
				}
				if again := c.gotten[name] > before; again != (len(open[name]) == 0) {
					t.Fatalf("compiled again: %v, while %d are open", again, len(open[name]))
				}
				open[name] = append(open[name], got)
			},
			"load": func(t *rapid.T) {
				name := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "module")
				sum := sha256.Sum256([]byte(name))
				before := c.gotten[name]
				got := e.Load(t.Context(), sum)
				if want := len(open[name]) > 0 || c.kept[sum] != ""; (got != nil) != want {
					t.Fatalf("loaded: %v, while %d are open, and kept is %q", got, len(open[name]), c.kept[sum])
				}
				if got == nil {
					return
				}
				if again := c.gotten[name] > before; again != (len(open[name]) == 0) {
					t.Fatalf("loaded again: %v, while %d are open", again, len(open[name]))
				}
				open[name] = append(open[name], got)
			},
			"lose": func(*rapid.T) { clear(c.kept) },
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
