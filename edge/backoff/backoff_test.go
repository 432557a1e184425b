package backoff_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/backoff"
)

func TestNext(t *testing.T) {
	b := backoff.New(100*time.Millisecond, time.Second)
	for range 2 {
		for _, bound := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			bound *= time.Millisecond
			if d := b.Next(); d < bound/2 || d > bound {
				t.Errorf("waits %v, want from half of %v up to it", d, bound)
			}
		}
		b.Reset()
	}
}

// TestNextIsSpread: processes that failed together try again at different times, from the
// first tenth of what is drawn from to the last.
func TestNextIsSpread(t *testing.T) {
	b := backoff.New(time.Second, time.Second)
	soonest, latest := b.Next(), b.Next()
	for range 1000 {
		d := b.Next()
		soonest, latest = min(soonest, d), max(latest, d)
	}
	if soonest > 550*time.Millisecond || latest < 950*time.Millisecond {
		t.Errorf("of many delays the soonest is %v and the latest %v", soonest, latest)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.New(time.Second, time.Minute)
		waited := func(ctx context.Context, err error) time.Duration {
			began := time.Now()
			b.Wait(ctx, err)
			return time.Since(began)
		}
		failed := errors.New("failed")
		waited(t.Context(), failed)
		if d := waited(t.Context(), failed); d < time.Second || d > 2*time.Second {
			t.Errorf("second failure: waited %v, want 1 s to 2 s", d)
		}
		if d := waited(t.Context(), nil); d != 0 {
			t.Errorf("success: waited %v", d)
		}
		if d := waited(t.Context(), failed); d < time.Second/2 || d > time.Second {
			t.Errorf("failure after a success: waited %v, want 0.5 s to 1 s", d)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if d := waited(ended, failed); d != 0 {
			t.Errorf("ended context: waited %v", d)
		}
	})
}

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		began, calls := time.Now(), 0
		backoff.Every(ctx, time.Second, func() {
			if calls++; time.Since(began) != time.Duration(calls)*time.Second {
				t.Errorf("call %d after %v", calls, time.Since(began))
			}
		})
		if ended := time.Since(began); calls != 3 || ended != 3500*time.Millisecond {
			t.Errorf("%d calls in %v", calls, ended)
		}
	})
}
