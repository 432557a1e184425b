package host

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/host/engine"
	"partneredge/host/memory"
	"partneredge/host/prepare"
	"partneredge/store/logtest"
	"partneredge/wasm/abi"
)

// blocking is a capability whose calls block until leave is closed.
type blocking struct {
	entered chan struct{}
	leave   chan struct{}
}

func newBlocking() *blocking { return &blocking{make(chan struct{}, 100), make(chan struct{})} }

func (b *blocking) Lockout(ctx context.Context, _ string) (time.Duration, error) {
	b.entered <- struct{}{}
	select {
	case <-b.leave:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (b *blocking) Failure(context.Context, string) (time.Duration, error) { panic("host bug") }

// callOperation assembles a guest that calls an operation without input and answers its
// result.
func callOperation(op abi.Op) []byte {
	return answerWith(asm(num(op), num(0), num(0), num(0x8000), num(64), 0x10, 0))
}

func openBlocking(t *testing.T, config Config, op abi.Op, limits Limits) (*Runtime, *Module, *blocking) {
	t.Helper()
	ctx := context.Background()
	g := newBlocking()
	if config.Log == nil {
		config.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	r, err := New(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(ctx) })
	m, err := r.Open(ctx, assembled(callOperation(op), nil), Manifest{Name: "blocking", Capabilities: []abi.Capability{abi.Lockouts}},
		Capabilities{Lockouts: g}, limits)
	if err != nil {
		t.Fatal(err)
	}
	return r, m, g
}

func TestPoolBound(t *testing.T) {
	var log logtest.Buffer
	_, m, g := openBlocking(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, abi.OpLockout, Limits{Sandboxes: 2, Wait: time.Minute, Wall: time.Minute})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if _, err := ask(m, "/", ""); err != nil {
				t.Error(err)
			}
		})
		<-g.entered
	}
	_, err := askWithin(50*time.Millisecond, m, "/", "") // none is free
	if ReasonOf(err) != Busy || !errors.Is(err, ErrBusy) {
		t.Errorf("third call: got %v, want busy", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.Call(ctx, &abi.Request{}, &abi.Response{}); ReasonOf(err) != Canceled {
		t.Errorf("cancelled call: got %v", err)
	}
	if text := log.String(); strings.Contains(text, "canceled") {
		t.Errorf("a client that goes away, as any may, is logged: %s", text)
	}
	if s := m.Stats(); s.Sandboxes != 2 || s.Created != 2 || s.Idle != 0 || s.Waiting != 0 {
		t.Errorf("stats %+v", s)
	}
	close(g.leave)
	group.Wait()
	// Calls that wait are served one after another.
	for range 10 {
		group.Go(func() {
			if _, err := ask(m, "/", ""); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	pristine(t, m)
}

func TestWallDeadlineReachesCapabilities(t *testing.T) {
	_, m, g := openBlocking(t, Config{}, abi.OpLockout, Limits{Wall: 2 * time.Second})
	for tries := 1; ; tries++ {
		start := time.Now()
		_, err := ask(m, "/", "")
		if took := time.Since(start); took > time.Minute {
			t.Errorf("took %v", took)
		}
		if ReasonOf(err) == WallDeadline && len(g.entered) == 0 && tries < 20 {
			continue // on a busy machine the time may be over before
		}
		if err != nil { // the guest sees a failure, and answers
			t.Fatal(err)
		}
		<-g.entered
		return
	}
}

// TestDeadlineEndsHostCalls holds that a guest which only calls the host, and spends
// no fuel, does not outlive its deadline.
func TestDeadlineEndsHostCalls(t *testing.T) {
	operation := asm(num(abi.OpLockout), num(0), num(0), num(0x8000), num(64), 0x10, 0, 0x1a)
	_, m, _ := openHostile(t, assembled(asm(whenLong(asm(operation, operation))), nil), memory.Auto, Limits{Wall: 2 * time.Second})
	g := newBlocking()
	m.SetCapabilities(Capabilities{Lockouts: g})
	for tries := 1; len(g.entered) == 0 && tries <= 20; tries++ { // on a busy machine the time may be over before
		_, err := ask(m, "/", long)
		if reason := ReasonOf(err); reason != CapabilityDeadline && (reason != WallDeadline || len(g.entered) > 0) {
			t.Errorf("a call to the host after the deadline: %v", err)
		}
	}
	if n := len(g.entered); n != 1 {
		t.Errorf("%d operations, want 1", n)
	}
	pristine(t, m)
}

// TestRequestBeyondTheBuffer: a request that a guest's input buffer has no room for is refused,
// and the next is answered, in the same sandbox.
func TestRequestBeyondTheBuffer(t *testing.T) {
	_, m, _ := openHostile(t, assembled(nil, nil), memory.Auto, Limits{})
	if _, err := ask(m, "/", strings.Repeat("x", abi.InputSize)); ReasonOf(err) != RequestSize || !errors.Is(err, abi.ErrTooLarge) {
		t.Errorf("a request that is too long: %v", err)
	}
	if _, err := ask(m, "/", strings.Repeat("x", 64<<10)); err != nil {
		t.Errorf("one with a body of 64 KiB: %v", err)
	}
	if s := m.Stats(); s.Discarded != 0 || s.Created != 1 {
		t.Errorf("%d sandboxes were made and %d given up", s.Created, s.Discarded)
	}
	pristine(t, m)
}

// TestInputOfOperationsIsBounded holds that no operation is given more than a request
// can bring.
func TestInputOfOperationsIsBounded(t *testing.T) {
	for _, tt := range []struct {
		size   int
		want   int32
		logged int // lines, of two calls
	}{{abi.InputSize, 8, 0}, {abi.InputSize + 1, int32(abi.CodeInvalid), 1}} {
		operation := asm(num(abi.OpLockout), num(0), num(tt.size), num(0x8000), num(64), 0x10, 0)
		_, m, log := openHostile(t, assembled(answerWith(operation), nil), memory.Auto, Limits{})
		for range 2 {
			got, err := ask(m, "/", "")
			if err != nil {
				t.Fatal(err)
			}
			if code := int32(binary.LittleEndian.Uint32([]byte(got[len(got)-8:]))); code != tt.want {
				t.Errorf("%d bytes of input: %d, want %d", tt.size, code, tt.want)
			}
		}
		if n := log.Count("its frame is malformed or too long"); n != tt.logged {
			t.Errorf("%d bytes of input: %d lines in the log, want %d: %s", tt.size, n, tt.logged, log)
		}
	}
}

func TestCapabilityPanics(t *testing.T) {
	_, m, _ := openBlocking(t, Config{}, abi.OpFailure, Limits{})
	if _, err := ask(m, "/", ""); err != nil {
		t.Errorf("a panic of the host's ends the guest's call: %v", err)
	}
	pristine(t, m)
}

// TestCeiling has two modules share memory for six sandboxes.
func TestCeiling(t *testing.T) {
	ctx := context.Background()
	const size = 2 * 64 << 10 // of the assembled module's image
	r, a, g := openBlocking(t, Config{Memory: 6 * size}, abi.OpLockout, Limits{Wall: time.Minute, Wait: 5 * time.Second})
	close(g.leave)
	b, err := r.Open(ctx, assembled(answerWith(asm(num(0))), nil), Manifest{Name: "b"}, Capabilities{}, Limits{Wait: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var used []*sandbox
	put := func() {
		for _, s := range used {
			s.call.m.pool.put(s)
		}
		used = nil
	}
	t.Cleanup(put)
	for range 3 {
		used = append(used, getSandbox(t, b))
	}
	if _, err := ask(b, "/", ""); !errors.Is(err, ErrBusy) {
		t.Errorf("call beyond half of the ceiling: got %v, want busy", err)
	}
	// A guest's growth beyond it fails as well.
	if r.ceiling.reserve(&b.pool, 1, false) {
		t.Error("more than half of the memory is one module's")
	}
	for range 3 {
		used = append(used, getSandbox(t, a))
	}
	if r.ceiling.free() != 0 || r.ceiling.reserve(&pool{module: a}, 1, false) {
		t.Error("there is memory left")
	}
	put()
	for _, m := range []*Module{a, b} {
		if _, err := ask(m, "/", ""); err != nil {
			t.Errorf("call after the others: %v", err)
		}
	}
}

// TestRefusedGrowthIsNotCounted: what a sandbox asked for and the system refused is there for
// others, and the guest's failure is told to be for want of memory.
func TestRefusedGrowthIsNotCounted(t *testing.T) {
	r, m, _ := openBlocking(t, Config{}, abi.OpLockout, Limits{})
	s := getSandbox(t, m)
	defer m.pool.put(s)
	before, from := r.ceiling.left, s.call.memory.Len()
	if !s.call.memory.Grow(from, from+prepare.PageSize) || r.ceiling.left != before-prepare.PageSize {
		t.Fatalf("%d bytes are left of %d", r.ceiling.left, before)
	}
	s.call.memory.Ungrow(from, from+prepare.PageSize)
	if r.ceiling.left != before || !s.call.refused {
		t.Errorf("%d bytes are left of %d, refused: %t", r.ceiling.left, before, s.call.refused)
	}
}

func TestClose(t *testing.T) {
	ctx := context.Background()
	r, m, g := openBlocking(t, Config{}, abi.OpLockout, Limits{Sandboxes: 1, Wall: time.Minute, Wait: time.Minute})
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := ask(m, "/", ""); err != nil {
			t.Error(err)
		}
	})
	<-g.entered
	group.Go(func() {
		if _, err := ask(m, "/", ""); !errors.Is(err, ErrClosed) {
			t.Errorf("waiting call: got %v, want closed", err)
		}
	})
	for m.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	closed := make(chan struct{})
	go func() {
		m.Close(ctx)
		close(closed)
	}()
	for {
		if _, err := ask(m, "/", ""); errors.Is(err, ErrClosed) {
			break
		}
	}
	select {
	case <-closed:
		t.Error("closed while a call is under way")
	default:
	}
	close(g.leave)
	group.Wait()
	<-closed
	m.Close(ctx)
	for range 2 {
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Open(ctx, assembled(answerWith(asm(num(0))), nil), Manifest{}, Capabilities{}, Limits{}); err == nil {
		t.Error("open on a closed runtime")
	}
}

// starved is an engine that starts no instance while short is set, and counts how often it
// was asked to.
type starved struct {
	engine.Engine
	short   atomic.Bool
	refused atomic.Int64
}

func (e *starved) Compile(ctx context.Context, wasm []byte) (engine.Code, error) {
	code, err := e.Engine.Compile(ctx, wasm)
	return starvedCode{code, e}, err
}

type starvedCode struct {
	engine.Code
	of *starved
}

func (c starvedCode) Start(ctx context.Context, m engine.Memory) (engine.Instance, error) {
	if c.of.short.Load() {
		c.of.refused.Add(1)
		return nil, errors.New("no memory")
	}
	return c.Code.Start(ctx, m)
}

// TestSandboxThatCannotBeMade: calls that wait for a sandbox end with the reason why none
// could be made, after one try for each, and later ones are served once there is room.
func TestSandboxThatCannotBeMade(t *testing.T) {
	ctx, e := context.Background(), &starved{}
	r, _, g := openBlocking(t, Config{Engine: func(ctx context.Context, config engine.Config) (made engine.Engine, err error) {
		e.Engine, err = defaultEngine()(ctx, config)
		return e, err
	}}, abi.OpLockout, Limits{})
	const unreachable = 0x00
	m, err := r.Open(ctx, assembled(asm(callOperation(abi.OpLockout), whenLong(asm(unreachable))), nil),
		Manifest{Name: "trapping", Capabilities: []abi.Capability{abi.Lockouts}}, Capabilities{Lockouts: g},
		Limits{Sandboxes: 1, Wait: time.Minute, Wall: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	calls.Go(func() {
		if _, err := ask(m, "/", long); ReasonOf(err) != Trap {
			t.Errorf("the call whose guest ends in a trap: %v", err)
		}
	})
	<-g.entered
	const waiting = 3
	for range waiting {
		calls.Go(func() {
			if _, err := ask(m, "/", ""); ReasonOf(err) != Failed {
				t.Errorf("a call that waits: %v, want %s", err, Failed)
			}
		})
	}
	for m.Stats().Waiting < waiting {
		runtime.Gosched()
	}
	e.short.Store(true)
	close(g.leave) // the sandbox goes with its call
	calls.Wait()
	m.pool.makers.Wait()
	if n := e.refused.Load(); n > waiting+1 {
		t.Errorf("%d tries to make a sandbox for %d calls", n, waiting)
	}
	if s := m.Stats(); s.Sandboxes != 0 || s.Waiting != 0 {
		t.Errorf("stats %+v", s)
	}
	e.short.Store(false)
	if _, err := ask(m, "/", ""); err != nil {
		t.Errorf("with room again: %v", err)
	}
	pristine(t, m)
}

// TestUnusedSandboxesAreFreed holds that a burst's sandboxes are freed once no call has
// used them for an interval, that those in use and a module's only one are not, and that
// what is freed counts no more against the ceiling.
func TestUnusedSandboxesAreFreed(t *testing.T) {
	r, m, g := openBlocking(t, Config{}, abi.OpLockout, Limits{Sandboxes: 5, Wall: time.Minute})
	before := r.ceiling.left
	var burst sync.WaitGroup
	for range 4 {
		burst.Go(func() {
			if _, err := ask(m, "/", ""); err != nil {
				t.Error(err)
			}
		})
		<-g.entered
	}
	m.pool.trim()
	if s := m.Stats(); s.Sandboxes != 4 {
		t.Errorf("all in use: %+v", s)
	}
	close(g.leave)
	burst.Wait()
	for _, want := range []int{4, 2, 1} { // all were used; two of them were; none was
		m.pool.trim()
		if s := m.Stats(); s.Sandboxes != want || s.Idle != want {
			t.Errorf("%d sandboxes, %d idle, want %d", s.Sandboxes, s.Idle, want)
		}
		if want == 4 {
			for _, s := range []*sandbox{getSandbox(t, m), getSandbox(t, m)} {
				m.pool.put(s)
			}
		}
	}
	if taken := before - r.ceiling.left; taken != 0 {
		t.Errorf("%d bytes are taken beside the memory of the only one", taken)
	}
	pristine(t, m)
}

// TestClosingPoolIsTrimmed holds that a pool may be trimmed while it is closed, which
// lasts as long as its sandboxes are in use.
func TestClosingPoolIsTrimmed(t *testing.T) {
	_, m, _ := openBlocking(t, Config{}, abi.OpLockout, Limits{Sandboxes: 4})
	var used []*sandbox
	for range 4 {
		used = append(used, getSandbox(t, m))
	}
	for _, s := range used[2:] {
		m.pool.put(s)
	}
	m.pool.trim() // from now on these two are unused
	closed := make(chan struct{})
	go func() {
		m.Close(t.Context())
		close(closed)
	}()
	for m.Stats().Sandboxes != 2 {
		runtime.Gosched()
	}
	m.pool.trim()
	for _, s := range used[:2] {
		m.pool.put(s)
	}
	<-closed
	if s := m.Stats(); s.Sandboxes != 0 || s.Idle != 0 {
		t.Errorf("once closed: %+v", s)
	}
}

func getSandbox(t *testing.T, m *Module) *sandbox {
	t.Helper()
	s, err := m.pool.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTrim holds that a runtime frees unused sandboxes by itself.
func TestTrim(t *testing.T) {
	_, m, g := openBlocking(t, Config{Trim: time.Millisecond}, abi.OpLockout, Limits{Sandboxes: 3, Wall: time.Minute})
	var burst sync.WaitGroup
	for range 3 {
		burst.Go(func() { _, _ = ask(m, "/", "") })
		<-g.entered
	}
	close(g.leave)
	burst.Wait()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); m.Stats().Sandboxes != 1; <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("stats %+v", m.Stats())
		}
	}
}
