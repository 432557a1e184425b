package hostile_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"partneredge/host"
	"partneredge/host/engine"
	"partneredge/host/hosttest/hostile"
	"partneredge/wasm/abi"
)

// named is an engine under test.
type named struct {
	name string
	new  engine.New
}

// TestGuests holds that each guest's attack ends as it may end under the engine, and
// that what comes next is answered, byte for byte the same.
func TestGuests(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			r, err := host.New(t.Context(), host.Config{Engine: e.new, CacheDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = r.Close(context.Background()) })
			for _, g := range hostile.Guests() {
				t.Run(g.Name, func(t *testing.T) { ends(t, r, g) })
			}
		})
	}
}

func ends(t *testing.T, r *host.Runtime, g hostile.Guest) {
	m, err := g.Open(t.Context(), r, host.Limits{Sandboxes: 1, Wait: time.Minute, Wall: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	for range 2 {
		ctx, cancel := t.Context(), func() {}
		if g.Name == "sleeps without end" {
			ctx, cancel = context.WithTimeout(ctx, time.Second)
		}
		err = hostile.Attack(ctx, m)
		cancel()
		if got := host.ReasonOf(err); !slices.Contains(g.Ends, got) && (got != "" || len(g.Ends) > 0) {
			t.Errorf("ended with %q, want %q: %v", got, g.Ends, err)
		}
		var resp abi.Response
		if err := m.Call(t.Context(), &abi.Request{Method: "GET", Path: "/"}, &resp); err != nil || string(resp.Body) != "honest" || resp.Status != 200 {
			t.Errorf("then: %d %q, %v", resp.Status, resp.Body, err)
		}
	}
}
