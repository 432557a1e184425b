package host

import (
	"sync"
	"testing"
	"time"
)

func TestYielder(t *testing.T) {
	y := yielder{processors: 2}
	calls := func(n int) {
		for range n {
			y.begin()
		}
		for range n {
			y.end()
		}
	}
	calls(2)
	if n := y.crowded.Load(); n != 0 {
		t.Errorf("as many calls as processors: crowded for %d more", n)
	}
	calls(3)
	if n := y.crowded.Load(); n != crowdedCalls-3 {
		t.Errorf("more calls than processors: crowded for %d more, want %d", n, crowdedCalls-3)
	}
	for range crowdedCalls {
		calls(1)
	}
	if n := y.crowded.Load(); n != 0 {
		t.Errorf("after many calls one by one: crowded for %d more", n)
	}

	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				calls(3)
			}
		})
	}
	group.Wait()
	if n := y.underWay.Load(); n != 0 {
		t.Errorf("%d calls under way when all have ended", n)
	}
}

func TestYielderDue(t *testing.T) {
	for _, tt := range []struct {
		calls    int
		computed time.Duration
		want     bool
	}{
		{1, yieldCrowded, false},
		{1, yieldAlone, true},
		{2, yieldCrowded - 1, false},
		{2, yieldCrowded, true},
	} {
		y := yielder{processors: 2}
		for range tt.calls {
			y.begin()
		}
		if got := y.due(tt.computed); got != tt.want {
			t.Errorf("%d calls on two processors, %v of computing: yields %t", tt.calls, tt.computed, got)
		}
	}
}
