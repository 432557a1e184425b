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
	const memory = 6 << 16
	r, small, _ := openBlocking(t, Config{Memory: memory}, abi.OpLockout, Limits{})
	for _, s := range []*sandbox{getSandbox(t, small), getSandbox(t, small), getSandbox(t, small)} {
		small.pool.put(s)
	}
	large := openPages(t, r, "large", 6, Limits{Wait: time.Nanosecond}, nil)
	if _, err := ask(large, "/", ""); err != nil {
		t.Errorf("while three others are idle: %v", err)
	}
	if s := small.Stats(); s.Sandboxes != 0 {
		t.Errorf("%d small sandboxes are left", s.Sandboxes)
	}
	settled(t, r, memory)
}

// TestIdleSandboxesStayWhereTheyAreTooFew: a call that all idle sandboxes together could not
// make room for costs others none of theirs.
func TestIdleSandboxesStayWhereTheyAreTooFew(t *testing.T) {
	const memory = 6 << 16
	r, small, _ := openBlocking(t, Config{Memory: memory}, abi.OpLockout, Limits{})
	used := getSandbox(t, small)
	small.pool.put(getSandbox(t, small))
	large := openPages(t, r, "large", 6, Limits{Wait: time.Millisecond}, nil)
	if _, err := ask(large, "/", ""); !errors.Is(err, ErrBusy) {
		t.Errorf("beyond the ceiling: %v", err)
	}
	if s := small.Stats(); s.Sandboxes != 2 || s.Idle != 1 {
		t.Errorf("%+v", s)
	}
	small.pool.put(used)
	if _, err := ask(large, "/", ""); err != nil {
		t.Errorf("once both are idle: %v", err)
	}
}

// TestCallsThatWaitForMemory: calls that wait while others' sandboxes have all memory are
// served as soon as one of those becomes idle, as many as its memory is enough for.
func TestCallsThatWaitForMemory(t *testing.T) {
	const memory = 4 << 16
	long := Limits{Wait: time.Hour, Wall: time.Hour}
	r, small, g := openBlocking(t, Config{Memory: memory}, abi.OpLockout, long)
	large := openPages(t, r, "large", 4, long, nil)
	used := getSandbox(t, large)
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if _, err := ask(small, "/", ""); err != nil {
				t.Error(err)
			}
		})
	}
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
	close(g.leave) // both become idle, and only together do they make room
	calls.Wait()
	settled(t, r, memory)
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
		if s.Waiting > 0 || s.Sandboxes != s.Idle {
			t.Errorf("%s: %+v", m.Manifest().Name, s)
		}
	}
	if left := r.ceiling.free(); left != memory {
		t.Errorf("%d bytes are left, want %d", left, memory)
	}
}
