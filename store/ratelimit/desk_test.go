package ratelimit

import "testing"

func TestDeskTellsWhoeverDrawsOnTheKey(t *testing.T) {
	var d Desk
	a, b, c := Life{Node: "a"}, Life{Node: "b"}, Life{Node: "c"}
	d.Merge(b, map[string]Report{"k": {Limit: 100, Spent: 3}}, start)
	d.Merge(c, map[string]Report{"other": {Limit: 100, Spent: 1}}, start)
	d.Due(start)

	got := d.Merge(a, map[string]Report{"k": {Limit: 100, Spent: 2}}, start)["k"]
	if got.Missing != 5*Token || got.Spent != 2 || got.Nodes != 2 {
		t.Errorf("a is told %+v, want 5 tokens missing, 2 of them its own, 2 nodes", got)
	}
	due, more := d.Due(start)
	if len(due) != 1 || due[b]["k"].Spent != 3 || due[b]["k"].Missing != 5*Token {
		t.Errorf("others are told %+v, want b alone to hear of k", due)
	}
	if again, later := d.Due(start); len(again) != 0 || more || later {
		t.Errorf("told again: %+v", again)
	}

	// At most every so often.
	d.Merge(a, map[string]Report{"k": {Limit: 100, Spent: 3}}, start)
	if due, more := d.Due(start + DueEvery - 1); len(due) != 0 || !more {
		t.Errorf("too soon: %+v, more %v", due, more)
	}
	if due, more := d.Due(start + DueEvery); due[b]["k"].Spent != 3 || more {
		t.Errorf("in time: %+v, more %v", due, more)
	}
	d.Merge(c, map[string]Report{"k": {Limit: 100, Spent: 1}}, start+DueEvery)
	if due, _ := d.Due(start + DueEvery); due[b]["k"].Nodes != 3 {
		t.Errorf("of a node that has just begun they are told %+v", due)
	}
}

func TestDeskForgetsWhatSaysNothing(t *testing.T) {
	var d Desk
	d.Merge(Life{Node: "a"}, map[string]Report{"k": {Limit: 100, Spent: 3}}, start)
	d.Forget(start + keepFor - 1)
	if d.Len() != 1 {
		t.Error("a counter was forgotten too early")
	}
	d.Forget(start + keepFor)
	if d.Len() != 0 {
		t.Error("a full bucket without counters is still kept")
	}
}
