package host

import (
	"context"
	"testing"

	"partneredge/host/memory"
	"partneredge/wasm/abi"
)

// takes is a Buckets that is a function.
type takes func(context.Context)

func (f takes) Take(ctx context.Context, _ string, _ int) (abi.Bucket, error) {
	f(ctx)
	return abi.Bucket{}, nil
}

// TestBeforeWaiting holds that a capability that spends a token keeps the thread until it
// says that it waits, that it may say so twice, and in vain once its call has ended.
func TestBeforeWaiting(t *testing.T) {
	r, err := New(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(context.Background()) }()
	mem, err := memory.New(64<<10, r.config.Reset)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Free()
	m := &Module{runtime: r, limits: Limits{}.withDefaults(), manifest: Manifest{Name: "waits", Capabilities: []abi.Capability{abi.Buckets}}}
	c := newCall(m, mem)
	var kept context.Context
	m.SetCapabilities(Capabilities{Buckets: takes(func(ctx context.Context) {
		if c.paused {
			t.Error("the thread is left to others before the capability waits")
		}
		for range 2 {
			BeforeWaiting(ctx)
			if !c.paused {
				t.Error("the thread is kept by a capability that waits")
			}
		}
		kept = ctx
	})})
	guest := mem.Resize(64 << 10)
	c.begin(t.Context(), abi.Principal{}, 1)
	mem.Watch()
	defer mem.Unwatch()
	if code := c.op(abi.OpTake, guest[:copy(guest, "\x64\x00\x00\x00key_1")], guest[32<<10:]); code < 0 {
		t.Fatal(abi.Code(code))
	}
	if c.paused {
		t.Error("the thread is left to others after the capability")
	}
	c.end()
	BeforeWaiting(kept)
	if c.paused {
		t.Error("the thread is left to others for a call that has ended")
	}
	BeforeWaiting(context.Background()) // of no call: nothing to be done
}
