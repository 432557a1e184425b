package webhook

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// A fifo gives back what was put in, in its order, whatever the turns.
func TestFifo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		var model []int
		for i, push := range rapid.SliceOfN(rapid.Bool(), 1, 600).Draw(t, "pushes") {
			switch {
			case push:
				f.push(i)
				model = append(model, i)
			case len(model) > 0:
				if f.first() != model[0] || f.pop() != model[0] {
					t.Fatalf("out of order")
				}
				model = model[1:]
			}
			if f.len() != len(model) {
				t.Fatalf("length %d, want %d", f.len(), len(model))
			}
		}
	})
}

// However an endpoint behaves, a delivery waits for its state no longer than
// hold, and never more tries than the most are under way.
func TestStartable(t *testing.T) {
	const most, hold = 8, 3 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		q := &queue{health: health{limit: 1}, window: windowFirst}
		q.items.push(&item{Claim: deliveries.Claim{Delivery: store.Delivery{NextAt: now}}})
		for range rapid.IntRange(0, 40).Draw(t, "tries") {
			if rapid.Bool().Draw(t, "ok") {
				q.health.succeeded(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms"))*time.Millisecond, time.Second, most)
			} else {
				q.health.failed(now, rapid.Bool().Draw(t, "late"))
			}
			if q.health.limit < 1 || q.health.limit > most {
				t.Fatalf("limit %d", q.health.limit)
			}
		}
		q.inFlight = rapid.IntRange(0, most).Draw(t, "in flight")
		q.held = 1 + q.inFlight
		ok, at := q.startable(now, most, hold)
		switch {
		case q.inFlight == most && (ok || !at.IsZero()):
			t.Fatal("one too many under way")
		case q.inFlight == most:
		case !ok && (at.IsZero() || at.After(now.Add(hold))):
			t.Fatalf("looked at again %v", at)
		case ok && q.inFlight >= q.health.limit:
			t.Fatal("beyond the limit before its time")
		}
		if ok, _ := q.startable(now.Add(hold), most, hold); ok != (q.inFlight < most) {
			t.Fatal("held for longer than the most")
		}
	})
}

func TestHealth(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	h := health{limit: 1}
	for _, want := range []int{2, 4, 8, 8} {
		if h.succeeded(time.Millisecond, time.Second, 8); h.limit != want || h.slow || !h.proven {
			t.Fatalf("after a success %+v", h)
		}
	}
	h.failed(now, false)
	if h.limit != 4 || h.slow || h.open() || h.proven {
		t.Fatalf("after one failure %+v", h)
	}
	h.failed(now, false)
	h.failed(now, false)
	if h.limit != 1 || !h.slow || !h.open() || h.probeAt.Sub(now) != probeFirst {
		t.Fatalf("after three %+v", h)
	}
	for range 100 {
		h.failed(now, false)
	}
	if h.probeAt.Sub(now) != probeMost {
		t.Fatalf("the pause is %v", h.probeAt.Sub(now))
	}
	h.succeeded(2*time.Second, time.Second, 8)
	if h.open() || !h.slow || !h.proven || h.limit != 2 {
		t.Fatalf("after a slow success %+v", h)
	}
	h = health{limit: 8}
	if h.failed(now, true); !h.slow {
		t.Fatal("an endpoint that hangs is not slow")
	}
}
