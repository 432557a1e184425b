package ratelimit

import "testing"

func TestMergerTellsWhoeverDrawsOnTheKey(t *testing.T) {
	var m Merger
	a, b, c := Reporter{Node: "a"}, Reporter{Node: "b"}, Reporter{Node: "c"}
	m.Merge(b, map[string]Report{"k": {Limit: 100, Spent: 3}}, start)
	m.Merge(c, map[string]Report{"other": {Limit: 100, Spent: 1}}, start)
	m.Due(start)

	got := m.Merge(a, map[string]Report{"k": {Limit: 100, Spent: 2}}, start)["k"]
	if got.Missing != 5*Token || got.Spent != 2 || got.Nodes != 2 {
		t.Errorf("a is told %+v, want 5 tokens missing, 2 of them its own, 2 nodes", got)
	}
	due, more := m.Due(start)
	if len(due) != 1 || due[b]["k"].Spent != 3 || due[b]["k"].Missing != 5*Token {
		t.Errorf("others are told %+v, want b alone to hear of k", due)
	}
	if again, later := m.Due(start); len(again) != 0 || more || later {
		t.Errorf("told again: %+v", again)
	}

	// At most every so often.
	m.Merge(a, map[string]Report{"k": {Limit: 100, Spent: 3}}, start)
	if due, more := m.Due(start + DueEvery - 1); len(due) != 0 || !more {
		t.Errorf("too soon: %+v, more %v", due, more)
	}
	if due, more := m.Due(start + DueEvery); due[b]["k"].Spent != 3 || more {
		t.Errorf("in time: %+v, more %v", due, more)
	}
	m.Merge(c, map[string]Report{"k": {Limit: 100, Spent: 1}}, start+DueEvery)
	if due, _ := m.Due(start + DueEvery); due[b]["k"].Nodes != 3 {
		t.Errorf("of a node that has just begun they are told %+v", due)
	}
}

func TestMergerForgetsWhatSaysNothing(t *testing.T) {
	var m Merger
	m.Merge(Reporter{Node: "a"}, map[string]Report{"k": {Limit: 100, Spent: 3}}, start)
	m.Forget(start + keepFor - 1)
	if m.Len() != 1 {
		t.Error("a counter was forgotten too early")
	}
	m.Forget(start + keepFor)
	if m.Len() != 0 {
		t.Error("a full bucket without counters is still kept")
	}
}

// TestMergerForgetsWhatAClockPutBackHasDated: what was reported and shared while the
// clock was a year ahead is forgotten as late as if it had been when the clock was put
// back.
func TestMergerForgetsWhatAClockPutBackHasDated(t *testing.T) {
	var m Merger
	const year = 365 * 24 * 3600 * 1_000_000
	for _, node := range []string{"a", "b"} {
		for _, key := range []string{"k", "l"} {
			m.Merge(Reporter{Node: node}, map[string]Report{key: {Limit: 100, Spent: 3}}, start+year)
		}
	}
	m.Due(start + year)
	if len(m.peers) == 0 {
		t.Fatal("nobody was told")
	}
	m.Forget(start)
	if m.Len() != 2 {
		t.Error("a counter was forgotten too early")
	}
	m.Forget(start + keepFor)
	if m.Len() != 0 || len(m.peers) != 0 {
		t.Errorf("%d ledgers and %d peers are still kept", m.Len(), len(m.peers))
	}
}
