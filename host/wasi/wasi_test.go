package wasi

import (
	"context"
	"testing"
)

// unchargedHost counts what runs without the guest being charged for it.
type unchargedHost struct {
	testHost
	times *int
}

func (h unchargedHost) Uncharged(f func()) { *h.times++; f() }

// TestYieldIsNotComputing holds that a guest which lets others run is not charged for what
// they compute.
func TestYieldIsNotComputing(t *testing.T) {
	times, found := 0, false
	c := &Call{Host: unchargedHost{testHost{t.Context()}, &times}}
	for _, f := range Funcs(func(context.Context) *Call { return c }) {
		if f.Name == "sched_yield" {
			found = true
			stack := []uint64{1}
			if f.Call(t.Context(), nil, stack); stack[0] != uint64(success) {
				t.Errorf("errno %d", stack[0])
			}
		}
	}
	if !found || times != 1 {
		t.Errorf("ran uncharged %d times, want once", times)
	}
}
