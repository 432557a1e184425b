package places

import "testing"

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
