package host

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"partneredge/host/threadtime"
	"partneredge/wasm/abi"
)

// TestWaitingForAProcessorIsNotComputing holds that a thread that waits for a processor
// is charged for one short stretch of computing, however often and long it waited. On a
// system that does not tell what a thread computed, each wait is charged so.
func TestWaitingForAProcessorIsNotComputing(t *testing.T) {
	m := &Module{runtime: &Runtime{epoch: time.Now()}, limits: Limits{Wall: time.Hour}.withDefaults()}
	c := newCall(m, nil)
	c.begin(context.Background(), abi.Principal{}, 0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	waits, most := 3, 3*maxStretch
	if threadtime.Now() != (threadtime.Reading{}) {
		waits, most = 1000, maxStretch+m.limits.CPU/2
	}
	for range waits {
		m.runtime.epoch = m.runtime.epoch.Add(-m.limits.CPU) // so much time passes
		c.check()                                            // panics when the call is ended
		c.mark()
	}
	if c.computed > most {
		t.Errorf("charged %v for computing", c.computed)
	}
}

// TestLongComputingIsCharged holds that a long stretch is charged in full in which the
// thread computed, up to maxStretch: others may have computed on it meanwhile.
func TestLongComputingIsCharged(t *testing.T) {
	if threadtime.Now() == (threadtime.Reading{}) {
		t.Skip("NOT TESTED: this system does not tell what a thread computed")
	}
	m := &Module{runtime: &Runtime{epoch: time.Now()}, limits: Limits{CPU: time.Minute}.withDefaults()}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, test := range []struct{ computes, want time.Duration }{
		{2 * time.Millisecond, 2 * time.Millisecond},
		{4 * maxStretch, maxStretch},
	} {
		c := newCall(m, nil)
		c.begin(context.Background(), abi.Principal{}, 0)
		c.waited = true
		c.mark()
		before := threadtime.Now()
		for used := time.Duration(0); used < test.computes; used, _ = threadtime.Since(before) {
		}
		if c.check(); c.computed < test.want || c.computed > maxStretch {
			t.Errorf("charged %v for computing %v, want %v", c.computed, test.computes, test.want)
		}
	}
}

// TestWaitingAfterAHostCallIsNotComputing holds that a guest which lets others run, logs or asks a
// capability is charged for what its thread computes as any other is, and not for what the thread
// computed for the host or for others meanwhile.
func TestWaitingAfterAHostCallIsNotComputing(t *testing.T) {
	if threadtime.Now() == (threadtime.Reading{}) {
		t.Skip("NOT TESTED: this system does not tell what a thread computed")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	compute := func() { // for more than a stretch may cost
		before := threadtime.Now()
		for used := time.Duration(0); used < 2*maxStretch; used, _ = threadtime.Since(before) {
		}
	}
	const calls = 8
	for name, call := range map[string]func(*call){
		"lets others run":   func(c *call) { c.Uncharged(compute) },
		"logs":              func(c *call) { c.log(slog.LevelInfo, []byte("a record")) },
		"asks a capability": func(c *call) { c.op(abi.OpProfile, nil, nil) },
		"is refused one":    func(c *call) { c.op(abi.OpInsights, nil, nil) },
	} {
		c, _ := idleCall(t, Limits{CPU: time.Hour, Wall: time.Hour, Log: 1 << 20})
		c.grant = newGrant(Manifest{Capabilities: []abi.Capability{abi.Views}}, Capabilities{Views: viewsDuring{do: compute}})
		c.principal.Scopes = abi.OpProfile.Scope()
		c.waited = true
		for range calls {
			call(c)
			pass(c, maxStretch) // so long the thread waits for a processor
			c.check()
		}
		if c.computed > calls*maxStretch/2 {
			t.Errorf("a guest that %s is charged %v for computing", name, c.computed)
		}
	}
}

// TestComputingIsCharged holds that computing in short stretches is charged in full.
func TestComputingIsCharged(t *testing.T) {
	m := &Module{runtime: &Runtime{epoch: time.Now()}, limits: Limits{}.withDefaults()}
	c := newCall(m, nil)
	c.begin(context.Background(), abi.Principal{}, 0)
	defer func() {
		if got, ok := recover().(*stop); !ok || got.reason != CPUDeadline {
			t.Errorf("the call was ended with %v", got)
		}
	}()
	for range int(m.limits.CPU/time.Millisecond) + 1 {
		m.runtime.epoch = m.runtime.epoch.Add(-time.Millisecond)
		c.check()
	}
	t.Error("the call went on beyond its limit")
}

// TestContextOfACapabilityIsSafeForManyGoroutines holds that a capability may give its
// context to goroutines of its own.
func TestContextOfACapabilityIsSafeForManyGoroutines(t *testing.T) {
	c := &capContext{parent: context.Background(), deadline: time.Now().Add(time.Hour)}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			_, _ = c.Err(), c.Value(c)
			<-c.Done()
			if err := c.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("the call ended, the context says %v", err)
			}
		})
	}
	c.cancel()
	group.Wait()
}

// TestContextOfACapabilityEndsWithTheCall holds that a context that is kept beyond the
// call has ended, though nothing had waited for it before.
func TestContextOfACapabilityEndsWithTheCall(t *testing.T) {
	parent, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := &capContext{parent: parent, deadline: time.Now().Add(time.Hour)}
	if err := c.Err(); err != nil {
		t.Errorf("at the beginning: %v", err)
	}
	c.cancel()
	if err := c.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("after the call: %v", err)
	}
	<-c.Done()
}

// TestContextOfACapabilityHasTheNearestDeadline holds that the context ends with the call
// also where the caller's own deadline is the nearer one.
func TestContextOfACapabilityHasTheNearestDeadline(t *testing.T) {
	m := &Module{runtime: &Runtime{epoch: time.Now()}, limits: Limits{}.withDefaults()}
	for _, after := range []time.Duration{5 * time.Second, time.Hour} {
		parent, cancel := context.WithTimeout(context.Background(), after)
		defer cancel()
		c := newCall(m, nil)
		c.begin(parent, abi.Principal{}, 0)
		ctx := c.Context()
		at, ok := ctx.Deadline()
		if left := time.Until(at); !ok || left > min(after, m.limits.Wall) {
			t.Errorf("caller's %v: it ends in %v", after, left)
		}
		c.end()
		if err := ctx.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("caller's %v: after the call: %v", after, err)
		}
	}
}
