package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"partneredge/host/engine"
	"partneredge/wasm/abi"
)

// warmsUp assembles a guest whose start computes for some milliseconds, and then runs code.
func warmsUp(code []byte) []byte {
	const million = 1_000_000
	spin := asm(0x03, 0x40, 0x23, 0, num(1), 0x6a, 0x24, 0, 0x23, 0, num(10*million), 0x49, 0x0d, 0, 0x0b)
	return assembled(answerWith(asm(num(0))), asm(spin, code))
}

// setsTable is code after which sandboxes are made by repeating the warm-up.
var setsTable = asm(num(2), num(0), 0x25, 0, 0x26, 0)

// TestRepeatedWarmUpIsBounded: a module whose warm-up is repeated for each sandbox is not opened if
// that computes for longer than a call may. Others may warm up for longer.
func TestRepeatedWarmUpIsBounded(t *testing.T) {
	r, err := New(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.Background())
	for _, tt := range []struct {
		name string
		code []byte
		cpu  time.Duration
		want string
	}{
		{"repeated and long", setsTable, time.Millisecond, "its warm-up is repeated for each sandbox and computes for "},
		{"repeated and short", setsTable, time.Hour, ""},
		{"repeated without a limit", setsTable, -1, ""},
		{"long", nil, time.Millisecond, ""},
	} {
		m, err := r.Open(t.Context(), warmsUp(tt.code), Manifest{Name: "m"}, Capabilities{}, Limits{CPU: tt.cpu})
		if err == nil {
			m.Close(t.Context())
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// lasting is an engine that starts instances only when the context of whoever asks ends, if last
// is set.
type lasting struct {
	engine.Engine
	last    bool
	started chan struct{}
}

func (e *lasting) Compile(ctx context.Context, wasm []byte) (engine.Code, error) {
	code, err := e.Engine.Compile(ctx, wasm)
	return lastingCode{code, e}, err
}

type lastingCode struct {
	engine.Code
	of *lasting
}

func (c lastingCode) Start(ctx context.Context, m engine.Memory) (engine.Instance, error) {
	if c.of.last {
		c.of.started <- struct{}{}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
	return c.Code.Start(context.WithoutCancel(ctx), m)
}

// TestRepeatedWarmUpEnds: to repeat a warm-up ends with the wait of the call that needs it, with the
// call, and with the module.
func TestRepeatedWarmUpEnds(t *testing.T) {
	e := &lasting{started: make(chan struct{}, 10)}
	r, err := New(t.Context(), Config{Engine: func(ctx context.Context, config engine.Config) (made engine.Engine, err error) {
		e.Engine, err = defaultEngine()(ctx, config)
		return e, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(context.Background())
	open := func(wait time.Duration) *Module {
		e.last = false
		m, err := r.Open(t.Context(), warmsUp(setsTable), Manifest{Name: "m"}, Capabilities{}, Limits{CPU: time.Hour, Wait: wait})
		if err != nil {
			t.Fatal(err)
		}
		e.last = true
		return m
	}
	m := open(time.Millisecond)
	if _, err := ask(m, "/", ""); !errors.Is(err, ErrBusy) {
		t.Errorf("a call that waits for a millisecond: %v", err)
	}
	<-e.started
	m.Close(t.Context())

	m = open(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-e.started
		cancel()
	}()
	if err := m.Call(ctx, &abi.Request{}, &abi.Response{}); ReasonOf(err) != Canceled {
		t.Errorf("a call that is cancelled: %v", err)
	}
	if !m.pool.replace() {
		t.Fatal("no sandbox is made in the background")
	}
	<-e.started
	m.Close(t.Context())
	if s := m.Stats(); s.Created != 0 || s.Sandboxes != 0 || s.Failed[Closed] != 0 {
		t.Errorf("a module that is closed while a sandbox is made: %+v", s)
	}
}
