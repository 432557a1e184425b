package places

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTake(t *testing.T) {
	p := Places[string]{All: 3, Each: 2}
	var leave []func()
	for i, taken := range []struct {
		one string
		ok  bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}, {"c", false}} {
		l, ok := p.Take(taken.one)
		if ok != taken.ok {
			t.Fatalf("%d: %s got a place: %v", i, taken.one, ok)
		}
		if ok {
			leave = append(leave, l)
		}
	}
	leave[0]()
	if l, ok := p.Take("c"); ok {
		leave[0] = l
	} else {
		t.Error("a place that was given back is not free")
	}
	for _, l := range leave {
		l()
	}
	if p.taken != 0 || len(p.of) != 0 {
		t.Errorf("counted are still %d and %v", p.taken, p.of)
	}
}

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Places[string]{All: 3, Each: 1}
		first, _ := p.Take("a")
		var got []int
		var waiting sync.WaitGroup
		for i := range 3 {
			waiting.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if leave, ok := p.Await(ctx, "a"); ok {
					got = append(got, i)
					time.Sleep(700 * time.Millisecond)
					leave()
				}
			})
			synctest.Wait()
		}
		if _, ok := p.Take("a"); ok {
			t.Error("one that did not wait came first")
		}
		first()
		waiting.Wait()
		if len(got) != 2 || got[0] != 0 || got[1] != 1 { // the last one would have had to wait for 1.4 s
			t.Errorf("%v got places, want the first two in their order", got)
		}
		if p.taken != 0 || len(p.of) != 0 || len(p.waiting) != 0 {
			t.Errorf("counted are still %d, %v and %v", p.taken, p.of, p.waiting)
		}
		var leave func()
		for _, one := range []string{"b", "c", "d"} {
			leave, _ = p.Take(one)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, ok := p.Await(ctx, "a"); ok {
			t.Error("there was a place beyond all")
		}
		time.AfterFunc(time.Second, leave)
		if _, ok := p.Await(t.Context(), "a"); !ok {
			t.Error("the place of another was not given on")
		}
		leave, _ = p.Take("d")
		if leave != nil {
			t.Error("one came before it was free")
		}
	})
}

func TestTakeUnboundedInAll(t *testing.T) {
	p := Places[int]{Each: 1}
	for one := range 1000 {
		if _, ok := p.Take(one); !ok {
			t.Fatalf("%d got no place", one)
		}
	}
	if _, ok := p.Take(7); ok {
		t.Error("one got two places")
	}
}
