package host

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"partneredge/wasm/abi"
)

// openPages opens a module with so many pages of memory, whose calls block with g, if given.
func openPages(t *testing.T, r *Runtime, name string, pages int, limits Limits, g *blocking) *Module {
	t.Helper()
	guest := answering(answerWith(asm(num(0))), nil)
	manifest, caps := Manifest{Name: name}, Capabilities{}
	if g != nil {
		guest = answering(callOperation(abi.OpLockout), nil)
		manifest.Capabilities, caps.Lockouts = []abi.Capability{abi.Lockouts}, g
	}
	guest.Pages = pages
	m, err := r.Open(t.Context(), guest.Assemble(), manifest, caps, limits)
	if err != nil {
		t.Fatal(err)
	}
	if size := pages << 16; m.image.size() != size {
		t.Fatalf("the image of %s has %d bytes, want %d", name, m.image.size(), size)
	}
	return m
}

// TestSmallSandboxesMakeRoom: a module whose sandboxes are large gets the memory of as many
// idle ones of others as it needs, at once.
func TestSmallSandboxesMakeRoom(t *testing.T) {
	const memory = 8 << 16
	r, small, _ := openBlocking(t, Config{Memory: memory}, abi.OpLockout, Limits{})
	for _, s := range []*sandbox{getSandbox(t, small), getSandbox(t, small), getSandbox(t, small), getSandbox(t, small)} {
		small.pool.put(s)
	}
	large := openPages(t, r, "large", 6, Limits{Wait: time.Nanosecond}, nil)
	if _, err := ask(large, "/", ""); err != nil {
		t.Errorf("while four others are idle: %v", err)
	}
	if s := small.Stats(); s.Sandboxes != 1 {
		t.Errorf("%d small sandboxes are left, want the one that is the module's own", s.Sandboxes)
	}
	settled(t, r, memory)
}

// TestIdleSandboxesStayWhereTheyAreTooFew: a call that all idle sandboxes together could not
// make room for costs others none of theirs.
func TestIdleSandboxesStayWhereTheyAreTooFew(t *testing.T) {
	const memory = 8 << 16
	r, small, _ := openBlocking(t, Config{Memory: memory}, abi.OpLockout, Limits{})
	used, other := getSandbox(t, small), getSandbox(t, small)
	small.pool.put(getSandbox(t, small))
	large := openPages(t, r, "large", 5, Limits{Wait: time.Millisecond}, nil)
	if _, err := ask(large, "/", ""); !errors.Is(err, ErrBusy) {
		t.Errorf("beyond the ceiling: %v", err)
	}
	if s := small.Stats(); s.Sandboxes != 3 || s.Idle != 1 {
		t.Errorf("%+v", s)
	}
	small.pool.put(used)
	small.pool.put(other)
	if _, err := ask(large, "/", ""); err != nil {
		t.Errorf("once all are idle: %v", err)
	}
}

// TestCallsThatWaitForMemory: calls that wait while others' sandboxes have all memory are
// served as soon as one of those becomes idle, as many as its memory is enough for.
func TestCallsThatWaitForMemory(t *testing.T) {
	const memory = 12 << 16
	long := Limits{Wait: time.Hour, Wall: time.Hour}
	r, small, g := openBlocking(t, Config{Memory: memory}, abi.OpLockout, long)
	large := openPages(t, r, "large", 10, long, nil)
	used := getSandbox(t, large)
	var calls sync.WaitGroup
	for range 3 { // the first has the memory that is its module's own
		calls.Go(func() {
			if _, err := ask(small, "/", ""); err != nil {
				t.Error(err)
			}
		})
	}
	<-g.entered
	for small.Stats().Waiting < 2 {
		runtime.Gosched()
	}
	large.pool.put(used) // which no call of its own waits for
	for range 2 {
		<-g.entered // both, at the same time
	}
	if s := large.Stats(); s.Sandboxes != 0 {
		t.Errorf("%d large sandboxes are left", s.Sandboxes)
	}
	calls.Go(func() {
		if _, err := ask(large, "/", ""); err != nil {
			t.Error(err)
		}
	})
	for large.Stats().Waiting < 1 {
		runtime.Gosched()
	}
	close(g.leave) // all become idle, and only together do they make room
	calls.Wait()
	settled(t, r, memory)
}

// TestNoModuleTakesAll: whatever others do, a call of each module is served at once: the memory of
// one sandbox is the module's own, also where it has none just now. While others are open, no
// module has more than half of the ceiling, growth included.
func TestNoModuleTakesAll(t *testing.T) {
	const size = 2 << 16 // of each image
	limits := Limits{Wait: time.Hour, Wall: time.Hour}
	r, greedy, g := openBlocking(t, Config{Memory: 8 * size}, abi.OpLockout, limits)
	gate := openPages(t, r, "gate", 2, Limits{Wait: time.Nanosecond}, nil)
	other := openPages(t, r, "other", 2, limits, g)
	var calls sync.WaitGroup
	block := func(m *Module, n int) {
		for range n {
			calls.Go(func() {
				if _, err := ask(m, "/", ""); err != nil {
					t.Error(err)
				}
			})
		}
	}
	enter := func(n int) {
		for range n {
			<-g.entered
		}
	}
	if _, err := ask(gate, "/", ""); err != nil {
		t.Fatal(err)
	}
	block(greedy, 5)
	enter(4)
	for greedy.Stats().Waiting < 1 {
		runtime.Gosched()
	}
	s := getSandbox(t, gate)
	if !s.call.memory.Grow(s.call.memory.Len(), s.call.memory.Len()+1) {
		t.Error("a module cannot grow that has less than half")
	}
	s.call.memory.Ungrow(s.call.memory.Len(), s.call.memory.Len()+1)
	if r.ceiling.reserve(&greedy.pool, 1, false) {
		t.Error("a module with half of the ceiling gets more")
	}
	block(other, 4)
	enter(3)
	for other.Stats().Waiting < 1 {
		runtime.Gosched()
	}
	gate.pool.discard(s) // as after a call that failed
	for range 3 {
		if _, err := ask(gate, "/", ""); err != nil {
			t.Errorf("while two others would have all memory: %v", err)
		}
	}
	close(g.leave)
	calls.Wait()
	settled(t, r, 8*size)
	for _, m := range []*Module{gate, other} {
		m.Close(t.Context())
	}
	for range 2 {
		if left := r.ceiling.free(); left != 8*size-max(greedy.Stats().Sandboxes, 1)*size {
			t.Errorf("%d bytes are left when one module is", left)
		}
		for _, s := range []*sandbox{getSandbox(t, greedy), getSandbox(t, greedy), getSandbox(t, greedy), getSandbox(t, greedy), getSandbox(t, greedy)} {
			greedy.pool.discard(s)
		}
	}
	greedy.Close(t.Context())
	greedy.Close(t.Context())
	if left := r.ceiling.free(); left != 8*size || r.ceiling.pinned != 0 || r.ceiling.modules != 0 {
		t.Errorf("%d bytes are left once all are closed, %d pinned, %d modules", left, r.ceiling.pinned, r.ceiling.modules)
	}
}

// TestManyModulesAtTheCeiling: calls of modules whose sandboxes have not all room at the same
// time are all served.
func TestManyModulesAtTheCeiling(t *testing.T) {
	const memory = 7 << 16
	limits := Limits{Wait: time.Hour, Wall: time.Hour}
	r, first, g := openBlocking(t, Config{Memory: memory}, abi.OpLockout, limits)
	close(g.leave)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-g.entered:
			case <-ended:
				return
			}
		}
	}()
	modules := []*Module{first}
	for pages := range 3 {
		modules = append(modules, openPages(t, r, "other", 2+pages, limits, g))
	}
	var calls sync.WaitGroup
	for _, m := range modules {
		for range 4 {
			calls.Go(func() {
				for range 50 {
					if _, err := ask(m, "/", ""); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	calls.Wait()
	settled(t, r, memory)
}

// settled checks that no call waits, and that of the memory of a runtime, what its sandboxes do
// not have is left.
func settled(t *testing.T, r *Runtime, memory int) {
	t.Helper()
	for _, m := range r.opened() {
		m.pool.makers.Wait()
		s := m.Stats()
		memory -= s.Sandboxes * s.Image
		if m.pool.pinned && s.Sandboxes == 0 {
			memory -= s.Image
		}
		if s.Waiting > 0 || s.Sandboxes != s.Idle {
			t.Errorf("%s: %+v", m.Manifest().Name, s)
		}
	}
	if left := r.ceiling.free(); left != memory {
		t.Errorf("%d bytes are left, want %d", left, memory)
	}
}
