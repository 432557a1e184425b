package host

import (
	"context"
	"testing"
	"time"

	"partneredge/wasm/abi"
)

// A thread that waits for a processor is not computing: however long it was
// kept waiting, that is charged as one short stretch.
func TestWaitingForAProcessorIsNotComputing(t *testing.T) {
	m := &Module{runtime: &Runtime{epoch: time.Now()}, limits: Limits{}.withDefaults()}
	c := &call{m: m}
	c.begin(context.Background(), abi.Principal{}, 0)
	for range 3 {
		m.runtime.epoch = m.runtime.epoch.Add(-m.limits.CPU) // so much time goes by
		c.check()                                            // panics when the call is ended
	}
	if c.computed > 3*maxStretch {
		t.Errorf("charged %v for computing", c.computed)
	}
}

// Computing in short stretches is charged whole.
func TestComputingIsCharged(t *testing.T) {
	m := &Module{runtime: &Runtime{epoch: time.Now()}, limits: Limits{}.withDefaults()}
	c := &call{m: m}
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
