package main

import (
	"testing"
	"time"
)

// TestBelowLimit holds the load of false_429 to what it is for: one bucket refuses
// none of it, and nodes with a fixed share each refuse most of it.
func TestBelowLimit(t *testing.T) {
	const nodes, minutes = 10, 5
	start := time.Unix(1_700_000_000, 0)
	var answers []answer
	for i := range minutes * minuteTotal {
		next := belowLimit(i, nodes)
		answers = append(answers, answer{sent: start.Add(next.after), node: next.node})
		if i > 0 && answers[i].sent.Before(answers[i-1].sent) {
			t.Fatalf("request %d is due before the one before", i)
		}
		if i >= limit && answers[i].sent.Sub(answers[i-limit].sent) < time.Minute {
			t.Fatalf("%d requests within the minute before request %d", limit+1, i)
		}
	}
	if end := answers[len(answers)-1].sent.Sub(start); end >= minutes*time.Minute || end < (minutes-1)*time.Minute {
		t.Errorf("%d minutes of load take %v", minutes, end)
	}
	if n := fixedShares(answers, 1); n != len(answers) {
		t.Errorf("one bucket admits %d of %d", n, len(answers))
	}
	n := fixedShares(answers, nodes)
	t.Logf("nodes with a fixed share refuse %d of %d", len(answers)-n, len(answers))
	if refused := len(answers) - n; refused < len(answers)/2 {
		t.Errorf("nodes with a fixed share refuse %d of %d, want half at least", refused, len(answers))
	}
	busiest := map[int]bool{}
	for minute := range minutes {
		busiest[answers[minute*minuteTotal].node] = true
	}
	if len(busiest) < minutes {
		t.Errorf("%d nodes are the busiest one in %d minutes", len(busiest), minutes)
	}
}

// TestFailedRequestsHaveNoFigure: an answer that is neither let through nor refused is an error.
func TestFailedRequestsHaveNoFigure(t *testing.T) {
	l := &load{answers: []answer{{status: 200}, {status: 429}, {status: 429}}}
	if admitted, refused, err := l.judged(); admitted != 1 || refused != 2 || err != nil {
		t.Errorf("%d admitted, %d refused, %v, want 1, 2 and no error", admitted, refused, err)
	}
	for _, failed := range []answer{{status: 500}, {status: 0}} {
		l := &load{answers: []answer{{status: 200}, failed, {status: 429}}}
		if _, _, err := l.judged(); err == nil {
			t.Errorf("status %d: no error", failed.status)
		}
	}
}
