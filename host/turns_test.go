package host

import (
	"sync"
	"testing"
	"time"
)

func TestTurns(t *testing.T) {
	turns := turns{processors: 2}
	calls := func(n int) {
		for range n {
			turns.begin()
		}
		for range n {
			turns.end()
		}
	}
	calls(2)
	if n := turns.crowded.Load(); n != 0 {
		t.Errorf("as many calls as processors: crowded for %d more", n)
	}
	calls(3)
	if n := turns.crowded.Load(); n != crowd-3 {
		t.Errorf("more calls than processors: crowded for %d more, want %d", n, crowd-3)
	}
	for range crowd {
		calls(1)
	}
	if n := turns.crowded.Load(); n != 0 {
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
	if n := turns.underWay.Load(); n != 0 {
		t.Errorf("%d calls under way when all have ended", n)
	}
}

func TestYield(t *testing.T) {
	for _, tt := range []struct {
		calls    int
		computed time.Duration
		want     bool
	}{
		{1, yieldAfter, false},
		{1, yieldAlone, true},
		{2, yieldAfter - 1, false},
		{2, yieldAfter, true},
	} {
		turns := turns{processors: 2}
		for range tt.calls {
			turns.begin()
		}
		if got := turns.yield(tt.computed); got != tt.want {
			t.Errorf("%d calls on two processors, %v of computing: yields %t", tt.calls, tt.computed, got)
		}
	}
}
