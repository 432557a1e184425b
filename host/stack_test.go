package host

import (
	"strings"
	"testing"
	"time"

	"partneredge/host/memory"
	"partneredge/host/wasmtest"
)

// recursion calls edge_handle within itself, for a request with a long body, to the
// given depth.
func recursion(depth int) []byte {
	const deep = 1 << 20 // a parameter that no request has
	again := func(n []byte) []byte { return asm(n, 0x10, wasmtest.Handle, 0x1a) }
	return asm(
		0x20, 0, num(deep), 0x4a, 0x04, 0x40, again(asm(0x20, 0, num(1), 0x6b)), 0x05,
		whenLong(asm(0x20, 0, num(deep), 0x47, 0x04, 0x40, again(asm(num(deep+depth))), 0x0b)), 0x0b)
}

// TestDeepStack holds that a guest may call as deeply as honest ones do, that its
// sandbox is given up where its stack stays large, and that the call ends where the
// stack gets too large.
func TestDeepStack(t *testing.T) {
	for _, tt := range []struct {
		name      string
		depth     int
		want      Reason
		discarded uint64 // under an engine whose stack is in Go's heap
	}{
		{"shallow", 50, "", 0},
		{"deep", 1200, "", 1},
		{"too deep", 400_000, Trap, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, m, _ := openHostile(t, assembled(asm(recursion(tt.depth), answerWith(asm(num(7)))), nil), memory.Auto, Limits{Sandboxes: 1, Wait: time.Minute})
			want, err := ask(m, "/", "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = ask(m, "/", long)
			if got := ReasonOf(err); got != tt.want {
				t.Errorf("ended with %q, want %q: %v", got, tt.want, err)
			}
			if err != nil && !strings.Contains(err.Error(), "stack overflow") {
				t.Errorf("got %v, want a stack overflow", err)
			}
			if got, err := ask(m, "/", ""); err != nil || got != want {
				t.Errorf("then got %q, %v, want %q", got, err, want)
			}
			m.pool.makers.Wait()
			for _, s := range m.pool.idle {
				if n := s.handle.StackSize(); n > keptStack {
					t.Errorf("an idle sandbox has a stack of %d bytes", n)
				}
				if n := s.handle.StackSize(); n == 0 && m.runtime.engine.Name() == "wazero" {
					t.Error("the stack's size is not known: this wazero has it elsewhere")
				}
			}
			if got := m.Stats().Discarded; m.runtime.engine.Name() == "wazero" && got != tt.discarded {
				t.Errorf("%d sandboxes were given up, want %d", got, tt.discarded)
			}
		})
	}
}
