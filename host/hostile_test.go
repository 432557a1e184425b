package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"partneredge/host/memory"
	"partneredge/wasm/abi"
)

type lockouts struct{}

func (lockouts) Lockout(context.Context, string) (time.Duration, error) { return 0, nil }
func (lockouts) Failure(context.Context, string) (time.Duration, error) { return 0, nil }

// openHostile opens a hostile module, with a capability, in a runtime of its own.
func openHostile(t testing.TB, wasm []byte, reset memory.Strategy, limits Limits) (*Runtime, *Module, *LogBuffer) {
	t.Helper()
	log := &LogBuffer{}
	ctx := context.Background()
	r, err := New(ctx, Config{CacheDir: CacheDir, Reset: reset,
		Log:   slog.New(slog.NewTextHandler(log, nil)),
		Clock: func() time.Time { return time.Unix(1e9, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	m, err := r.Open(ctx, wasm, Manifest{Name: "hostile", Capabilities: []abi.Capability{abi.Lockouts},
		Warmup: []Warmup{{Method: "GET", Path: "/honest"}}}, Capabilities{Lockouts: lockouts{}}, limits)
	if err != nil {
		t.Fatal(err)
	}
	return r, m, log
}

func ask(m *Module, path, body string) (string, error) {
	return askIn(context.Background(), m, path, body)
}

// askWithin asks as a caller does who waits for so long.
func askWithin(d time.Duration, m *Module, path, body string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return askIn(ctx, m, path, body)
}

func askIn(ctx context.Context, m *Module, path, body string) (string, error) {
	var resp abi.Response
	err := m.Call(ctx, &abi.Request{Method: "GET", Path: path, Body: []byte(body)}, &resp)
	return fmt.Sprintf("%d %v %s", resp.Status, resp.Headers, resp.Body), err
}

// pristine checks that all state of every idle sandbox is the image's, and that the
// memory reserved is that of the sandboxes.
func pristine(t *testing.T, m *Module) {
	t.Helper()
	m.pool.makers.Wait()
	m.pool.mu.Lock()
	defer m.pool.mu.Unlock()
	if m.pool.count != len(m.pool.idle) || len(m.pool.idle) == 0 {
		t.Errorf("%d sandboxes, %d idle", m.pool.count, len(m.pool.idle))
	}
	for _, s := range m.pool.idle {
		if err := s.same(); err != nil {
			t.Errorf("idle sandbox: %v", err)
		}
		if !bytes.Equal(s.instance.Memory(), m.image.memory.Bytes()) {
			t.Error("idle sandbox: memory is not the image's")
		}
	}
	m.runtime.ceiling.mu.Lock()
	defer m.runtime.ceiling.mu.Unlock()
	if want := m.pool.count * m.image.size(); m.pool.held != want {
		t.Errorf("%d bytes of memory reserved, want %d", m.pool.held, want)
	}
	reserved := 0
	for _, m := range m.runtime.opened() {
		reserved += m.pool.held
	}
	if left := m.runtime.ceiling.left; left != m.runtime.ceiling.size-reserved {
		t.Errorf("%d bytes of memory are left, %d reserved", left, reserved)
	}
}

// attacks are the paths of testdata/hostile, with the reasons for which each may end;
// none: it is answered.
var attacks = []struct {
	path string
	want []Reason
}{
	{"/memory", nil}, {"/heap", nil}, {"/goroutines", nil}, {"/timers", nil}, {"/descriptors", nil},
	{"/environment", nil}, {"/finalizers", nil}, {"/grow", nil},
	{"/spin", []Reason{CPUDeadline}},
	{"/spin-goroutines", []Reason{CPUDeadline}},
	{"/recurse", []Reason{HostCalls, WallDeadline, Exit, Trap, CPUDeadline, LogBytes, Memory}},
	{"/allocate", []Reason{Memory, CPUDeadline}},
	{"/sleep", []Reason{WallDeadline}},
	{"/deadlock", []Reason{Exit, Trap, WallDeadline, LogBytes}},
	{"/flood-log", []Reason{LogBytes}},
	{"/flood-stderr", []Reason{LogBytes}},
	{"/flood-line", []Reason{LogBytes}},
	{"/flood-host", []Reason{HostCalls}},
	{"/big", []Reason{ResponseSize}},
	{"/exit", []Reason{Exit}},
	{"/exit0", []Reason{Exit}},
	{"/panic", []Reason{Exit, Trap}},
	{"/nil", []Reason{Exit, Trap}},
	{"/wild", []Reason{Trap, Exit}},
	{"/raze", []Reason{Trap, Exit, CPUDeadline, LogBytes, Memory}},
}

// patient is a limit for attacks that are to end by another: a slow machine may take
// longer than the default for what they do before.
const patient = 500 * time.Millisecond

// TestHostile runs each attack, then 1 000 honest requests, whose answers must be byte
// for byte what they were before, with nothing left behind in memory.
func TestHostile(t *testing.T) {
	wasm := Build(t, "./testdata/hostile")
	for _, strategy := range memory.Available() {
		t.Run(strategy.String(), func(t *testing.T) {
			_, m, log := openHostile(t, wasm, strategy, Limits{CPU: patient, Wall: time.Minute, Sandboxes: 4})
			want, err := ask(m, "/honest", "")
			if err != nil {
				t.Fatal(err)
			}
			honest := 1000
			if testing.Short() {
				honest /= 10
			}
			if strategy != memory.Available()[0] {
				honest /= 10 // the rarer strategies share what was shown
			}
			fds, goroutines := descriptors(t), runtime.NumGoroutine()
			failures := 0
			for _, a := range attacks {
				t.Run(a.path[1:], func(t *testing.T) {
					wall := 30 * time.Second
					if slices.Contains(a.want, WallDeadline) {
						wall = 2 * time.Second
					}
					start := time.Now()
					_, err := askWithin(wall, m, a.path, "do not tell")
					if took := time.Since(start); took > 45*time.Second { // well before the module's own deadline
						t.Errorf("took %v", took)
					}
					if got := ReasonOf(err); !allowed(got, a.want) {
						t.Errorf("ended with %q, want %v: %v", got, a.want, err)
					}
					if err != nil {
						failures++
					}
					for range honest {
						if got, err := ask(m, "/honest", ""); err != nil || got != want {
							t.Fatalf("honest answer: %v\n%s\nwant\n%s", err, got, want)
						}
					}
					pristine(t, m)
				})
			}
			checkCounted(t, m, log, failures)
			if n := descriptors(t); n > fds+8 { // a page map for each of 4 sandboxes
				t.Errorf("%d descriptors, %d before", n, fds)
			}
			if n := runtime.NumGoroutine(); n > goroutines+2 {
				t.Errorf("%d goroutines, %d before", n, goroutines)
			}
		})
	}
}

// checkCounted checks that all failures were logged and counted, without the request's
// body.
func checkCounted(t *testing.T, m *Module, log *LogBuffer, failures int) {
	t.Helper()
	if n := log.Count("module call failed"); n != failures {
		t.Errorf("%d failures logged, want %d", n, failures)
	}
	if n := log.Count("do not tell"); n != 0 {
		t.Errorf("a request's body is in the log %d times", n)
	}
	total := uint64(0)
	for _, n := range m.Stats().Failed {
		total += n
	}
	if total != uint64(failures) {
		t.Errorf("%d failures counted, want %d", total, failures)
	}
}

func allowed(got Reason, want []Reason) bool {
	return len(want) == 0 && got == "" || slices.Contains(want, got)
}

// descriptors returns how many files the process has open, 0 where that is not known.
func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Logf("open files not counted: %v", err)
	}
	return len(list)
}

// TestHostileTogether runs attacks and honest requests side by side.
func TestHostileTogether(t *testing.T) {
	wasm := Build(t, "./testdata/hostile")
	_, m, _ := openHostile(t, wasm, memory.Auto, Limits{CPU: patient, Wall: 5 * time.Minute, Sandboxes: 8, Wait: 5 * time.Minute})
	want, err := ask(m, "/honest", "")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := range 25 {
				a := attacks[(i*7+n)%len(attacks)]
				if slices.Contains(a.want, WallDeadline) {
					// The deadline bounds the wait for a sandbox too, so it may end there.
					_, _ = askWithin(2*time.Second, m, a.path, "do not tell")
					continue
				}
				if _, err := ask(m, a.path, "do not tell"); errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 250 {
				if got, err := ask(m, "/honest", ""); err != nil || got != want {
					t.Errorf("honest answer: %s, %v", got, err)
				}
			}
		})
	}
	group.Wait()
	pristine(t, m)
}
