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
		q := &queue{health: anyHealth(t, now, most), window: windowFirst}
		q.items.push(&item{Claim: deliveries.Claim{Delivery: store.Delivery{NextAt: now}}})
		q.inFlight = rapid.IntRange(0, most).Draw(t, "in flight")
		q.held = 1 + q.inFlight
		ok, extra, at := q.startable(now, most, hold)
		switch {
		case q.inFlight == most && (ok || !at.IsZero()):
			t.Fatal("one too many under way")
		case q.inFlight == most:
		case !ok && (at.IsZero() || at.After(now.Add(hold))):
			t.Fatalf("looked at again %v", at)
		case extra:
			t.Fatal("an extra try before its time")
		case ok && q.inFlight >= q.health.limit:
			t.Fatal("beyond the limit before its time")
		}
		ok, extra, _ = q.startable(now.Add(hold), most, hold)
		if ok != (q.inFlight < most) {
			t.Fatal("held for longer than the most")
		}
		if ok && extra != (q.inFlight >= q.health.limit) {
			t.Fatalf("%d under way of %d: extra is %v", q.inFlight, q.health.limit, extra)
		}
	})
}

// anyHealth returns the health of an endpoint after any tries.
func anyHealth(t *rapid.T, now time.Time, most int) health {
	h := health{limit: 1}
	for range rapid.IntRange(0, 40).Draw(t, "tries") {
		hung := rapid.Bool().Draw(t, "hung")
		if hung {
			h.hung()
		}
		if rapid.Bool().Draw(t, "ok") {
			h.succeeded(!hung, most)
		} else {
			h.failed(now)
		}
		if h.limit < 1 || h.limit > most {
			t.Fatalf("limit %d", h.limit)
		}
	}
	return h
}

// In the long run an endpoint has at most one try that hangs for each hangCost quick
// successes while it is trusted.
func TestHangsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := health{limit: 1}
		hangs, successes := 0, 0
		for range rapid.IntRange(0, 400).Draw(t, "tries") {
			trusted := h.trusted()
			switch {
			case rapid.IntRange(0, 9).Draw(t, "hangs") < 3:
				h.hung()
				h.failed(time.Time{})
				if trusted {
					hangs++
				}
			default:
				h.succeeded(true, 8)
				successes++
			}
			if hangs > 2+successes/hangCost {
				t.Fatalf("%d hanging tries beside %d successes", hangs, successes)
			}
		}
	})
}

func TestHealth(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	h := health{limit: 1}
	for _, want := range []int{2, 4, 8, 8} {
		if h.succeeded(true, 8); h.limit != want || !h.trusted() {
			t.Fatalf("after a success %+v", h)
		}
	}
	for range openFrom - 1 {
		if h.failed(now); h.open() || !h.trusted() {
			t.Fatalf("after %d failures %+v", h.failures, h)
		}
	}
	if h.failed(now); h.limit != 1 || h.slow() || !h.open() || h.trusted() || h.probeAt.Sub(now) != probeFirst {
		t.Fatalf("after three %+v", h)
	}
	for range 100 {
		h.failed(now)
	}
	if h.probeAt.Sub(now) != probeMost {
		t.Fatalf("the pause is %v", h.probeAt.Sub(now))
	}
	if h.succeeded(true, 8); h.open() || !h.trusted() || h.limit != 2 {
		t.Fatalf("after a success %+v", h)
	}
	if h.hung(); !h.trusted() {
		t.Fatalf("a proven endpoint after one try that hangs: %+v", h)
	}
	if h.hung(); !h.slow() {
		t.Fatalf("after another: %+v", h)
	}
	for range hangCost {
		if h.trusted() {
			t.Fatalf("too soon: %+v", h)
		}
		h.succeeded(true, 8)
	}
	if !h.trusted() {
		t.Fatalf("after %d successes: %+v", hangCost, h)
	}
	h = health{limit: 1}
	if h.hung(); !h.slow() {
		t.Fatal("a new endpoint that hangs is not slow")
	}
}

// Whatever queues come and go, a lane gives each account its turn before any has
// another, and each queue once.
func TestLaneRotation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &newLanes(&Config{Fast: 1024, Trial: 256, Slow: 1024}).slow
		accounts := make([]*account, rapid.IntRange(1, 5).Draw(t, "accounts"))
		waiting := map[*queue]bool{}
		for i := range accounts {
			accounts[i] = &account{}
			for range rapid.IntRange(0, 6).Draw(t, "queues") {
				q := &queue{account: accounts[i]}
				l.push(q)
				waiting[q] = true
				if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
					q.waitsIn = nil
					delete(waiting, q)
				}
			}
		}
		left := map[*account]int{}
		for q := range waiting {
			left[q.account]++
		}
		turns := map[*account]int{}
		for len(waiting) > 0 {
			q := l.pop()
			if q == nil || !waiting[q] {
				t.Fatalf("got %v, %d wait", q, len(waiting))
			}
			delete(waiting, q)
			turns[q.account]++
			left[q.account]--
			for other, n := range left {
				if n > 0 && turns[other] < turns[q.account]-1 {
					t.Fatalf("one account has had %d turns, another that waits %d", turns[q.account], turns[other])
				}
			}
		}
		if q := l.pop(); q != nil {
			t.Fatal("one more than were put in")
		}
	})
}

// However many endpoints of an account are on trial, others find a place, and nobody
// is forgotten.
func TestShareOfTrials(t *testing.T) {
	lanes := newLanes(&Config{Fast: 1024, Trial: 256, Slow: 1024})
	l := &lanes.trial
	var trials []*queue
	start := func() {
		for l.budget.inFlight < l.most {
			q := l.pop()
			if q == nil {
				return
			}
			l.occupy(q)
			trials = append(trials, q)
		}
	}
	total := 0
	for range 30 {
		a := &account{}
		for range 100 {
			l.push(&queue{account: a})
			total++
		}
	}
	start()
	if free := l.most - l.budget.inFlight; free < 20 || free > 60 {
		t.Errorf("%d trials are free beside 30 accounts", free)
	}
	newcomer := &queue{account: &account{}}
	l.push(newcomer)
	if start(); trials[len(trials)-1] != newcomer {
		t.Error("a new account waits")
	}
	total++
	for ended := 0; ended < total; ended++ {
		if len(trials) == 0 {
			t.Fatalf("%d of %d had their trial", ended, total)
		}
		l.vacate(trials[0])
		trials = trials[1:]
		start()
	}
}
