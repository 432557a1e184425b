package ratelimit

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestUrgencyOfReports takes tokens until the origin must hear of them at once: when
// half of the node's part of what is left is spent.
func TestUrgencyOfReports(t *testing.T) {
	for nodes, want := range map[int64]int64{0: 34, 1: 34, 2: 20} {
		a := NewAccount(1000)
		a.SharedAt, a.Nodes = start, nodes
		for taken := int64(1); ; taken++ {
			answer, urgency := a.Take(100, start)
			if !answer.Allowed || taken > want || (urgency == ReportNow) != (taken == want) {
				t.Errorf("%d nodes: token %d: %+v, urgency %d, want %d to be reported at once", nodes, taken, answer, urgency, want)
			}
			if urgency == ReportNow || !answer.Allowed {
				break
			}
		}
		a.Report(100, start)
		if answer, urgency := a.Take(100, start); !answer.Allowed || urgency != ReportSoon {
			t.Errorf("%d nodes: a token after the report: %+v, urgency %d", nodes, answer, urgency)
		}
	}
}

// TestWhoseAccountStands: the account of a node that is alone stands against a share that
// differs by no more than a report is late, and every other share stands.
func TestWhoseAccountStands(t *testing.T) {
	const limit, late = 100, 100 * reportDelay
	for _, test := range []struct {
		nodes, missing, want int64 // missing: more, by the share, than the node has
	}{
		{1, late, 0}, {0, late, 0}, {1, late + 1, late + 1}, {1, 1, 0}, {1, 0, 0}, {1, -1, -1},
		{2, late, late}, {2, 1, 1}, {2, -1, -1},
	} {
		a := NewAccount(0)
		a.Bucket = Bucket{Missing: 50 * Token, At: start}
		a.Apply(Share{Missing: 50*Token + test.missing, Nodes: test.nodes}, limit, start)
		if got := a.Missing - 50*Token; got != test.want {
			t.Errorf("%d nodes, a share of %d grains more: %d more are missing, want %d", test.nodes, test.missing, got, test.want)
		}
	}
}

// TestUrgencyOfRefusals asks for a share only where the last one may be out of date.
func TestUrgencyOfRefusals(t *testing.T) {
	for age, want := range map[int64]Urgency{0: NoReport, FreshFor/2 - 1: NoReport, FreshFor / 2: ReportSoon, FreshFor: ReportSoon} {
		a := Account{Bucket: Bucket{Missing: 100 * Token, At: start}, SharedAt: start - age, Nodes: 1}
		if answer, got := a.Take(100, start); answer.Allowed || got != want {
			t.Errorf("%d µs after a share: %+v, urgency %d, want %d", age, answer, got, want)
		}
	}
}

// TestFreshness goes by a share from when it came until FreshFor later, but not before:
// the clock was put back.
func TestFreshness(t *testing.T) {
	a := Account{SharedAt: start}
	for after, want := range map[int64]bool{-1: false, 0: true, FreshFor - 1: true, FreshFor: false} {
		if a.fresh(start+after) != want {
			t.Errorf("%d µs after the share: fresh %t", after, !want)
		}
	}
	if new(Account).fresh(0) {
		t.Error("fresh without a share")
	}
}

// TestLateReports holds that spending counts as late when no share came for activeFor
// and more was regained than a report may be late by, and not before.
func TestLateReports(t *testing.T) {
	const limit, late = 100, 100 * reportDelay
	for name, test := range map[string]struct {
		age, regained int64
		want          bool
	}{
		"late":                    {activeFor, late + 1, true},
		"the share is too recent": {activeFor - 1, late + 1, false},
		"too little is regained":  {activeFor, late, false},
	} {
		a := Account{Bucket: Bucket{Missing: 10*Token - test.regained, At: start}, Spent: 10, SharedAt: start - test.age}
		r := a.Report(limit, start)
		if r.Late != test.want || r.Late && r.Owed != 10*Token-test.regained || !r.Late && r.Owed != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestNothingOwedIsNotSpent merges late spending of which nothing is owed, and a report
// that claims less than nothing.
func TestNothingOwedIsNotSpent(t *testing.T) {
	for _, owed := range []int64{0, -1, -100 * Token} {
		var l Ledger
		from := Reporter{Node: "a"}
		l.Merge(from, Report{Limit: 100, Spent: 3, Missing: Token}, start)
		before := l.Share(from, start).Missing
		l.Merge(from, Report{Limit: 100, Spent: 9, Acked: 3, Late: true, Owed: owed}, start)
		if got := l.Share(from, start); got.Missing != before || got.Spent != 9 {
			t.Errorf("%d grains owed: %+v, want %d missing", owed, got, before)
		}
	}
}

// TestMergerTellsAllOfManyReports has two nodes report a key before anybody is told:
// each must hear of the other.
func TestMergerTellsAllOfManyReports(t *testing.T) {
	var m Merger
	a, b := Reporter{Node: "a"}, Reporter{Node: "b"}
	merge := func(from Reporter, spent, at int64) {
		m.Merge(from, map[string]Report{"k": {Limit: 100, Spent: spent}}, at)
	}
	merge(a, 1, start)
	merge(b, 1, start)
	m.Due(start)
	const later = start + 10*DueEvery
	merge(a, 2, later)
	merge(b, 2, later)
	merge(a, 3, later)
	due, more := m.Due(later)
	if len(due) != 2 || more || due[a]["k"].Spent != 3 || due[b]["k"].Spent != 2 || due[b]["k"].Missing != due[a]["k"].Missing {
		t.Errorf("told %+v, more %t, want both to hear of k", due, more)
	}
}

// TestMergerForgetsPeers drops who was told, once it may be told again, and at once
// when the clock was put back.
func TestMergerForgetsPeers(t *testing.T) {
	for after, want := range map[int64]int{0: 1, DueEvery - 1: 1, DueEvery: 0, -1: 0} {
		var m Merger
		m.Merge(Reporter{Node: "a"}, map[string]Report{"k": {Limit: 100, Spent: 1}}, start)
		m.Merge(Reporter{Node: "b"}, map[string]Report{"k": {Limit: 100, Spent: 1}}, start)
		if due, _ := m.Due(start); len(due) != 1 {
			t.Fatalf("told %+v", due)
		}
		if m.Forget(start + after); len(m.peers) != want {
			t.Errorf("%d µs later: %d peers, want %d", after, len(m.peers), want)
		}
	}
}

// TestUncounted confirms a report and leaves the account as it was, for claims that are
// none as well.
func TestUncounted(t *testing.T) {
	const most = 1000 * 7 * Token
	for name, test := range map[string]struct {
		report  Report
		missing int64
	}{
		"nothing new":    {Report{Spent: 3, Acked: 3, Missing: 5}, 5},
		"two tokens":     {Report{Spent: 3, Acked: 1, Missing: 5}, 5 + 2*Token},
		"less than none": {Report{Spent: 3, Acked: 4, Missing: -5}, 0},
		"too much":       {Report{Spent: math.MaxInt64, Missing: math.MaxInt64}, 2 * most},
		"late":           {Report{Spent: 9, Acked: 3, Late: true, Owed: 2*Token + 1}, 2*Token + 1},
		"late, paid off": {Report{Spent: 9, Acked: 3, Late: true}, 0},
		"late, a lie":    {Report{Spent: 4, Acked: 3, Late: true, Owed: math.MaxInt64}, Token},
		"late, less":     {Report{Spent: 9, Acked: 3, Missing: 5, Late: true, Owed: -5}, 5},
		"owed, not late": {Report{Spent: 9, Acked: 3, Owed: 5}, 6 * Token},
	} {
		test.report.Limit = 7
		if got, want := test.report.Uncounted(), (Share{Missing: test.missing, Spent: test.report.Spent, Nodes: 1}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestUncountedIsNoDebt: a node whose report is not counted has no more missing than before,
// but for what it spent since the report. Where its last share is too recent for the report
// to be late, that is but for what the bucket has regained since that share, too.
func TestUncountedIsNoDebt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 1000).Draw(t, "limit")
		var a Account
		var l Ledger
		now := int64(start)
		spend := func(what string, most int) {
			for range rapid.IntRange(0, most).Draw(t, what) {
				now += rapid.Int64Range(0, 20*second).Draw(t, "wait")
				a.Take(limit, now)
			}
		}
		spend("counted", 5)
		if rapid.Bool().Draw(t, "shared") {
			l.Merge(nodeA, a.Report(limit, now), now)
			a.Apply(l.Share(nodeA, now), limit, now)
		}
		spend("uncounted", 30)
		now += rapid.Int64Range(0, 20*second).Draw(t, "pause")
		r := a.Report(limit, now)
		before, spent, most := a.Missing, a.Spent, int64(0)
		if since := now - a.SharedAt; !r.Late && since < activeFor {
			most = since * int64(limit)
		} else if !r.Late {
			most = int64(limit) * reportDelay
		}
		spend("meanwhile", 2)
		a.Apply(r.Uncounted(), limit, now)
		if most += before + (a.Spent-spent)*Token; a.Missing > most {
			t.Fatalf("%+v: %d grains missing, %d before, at most %d", r, a.Missing, before, most)
		}
		if a.Acked != r.Spent {
			t.Fatalf("%+v is not confirmed: %+v", r, a)
		}
	})
}

// TestClockSlack takes a time a little before the last for the last. From one further
// back the bucket regains again what it regained before.
func TestClockSlack(t *testing.T) {
	for back, want := range map[int64]int64{0: 2 * Token, 1: 2 * Token, clockSlack - 1: 2 * Token, clockSlack: 2*Token - clockSlack*100} {
		var l Ledger
		l.Merge(nodeA, Report{Limit: 100, Missing: 2 * Token}, start)
		l.Share(nodeA, start-back)
		if got := l.Share(nodeA, start).Missing; got != want {
			t.Errorf("%d us back: %d grains missing, want %d", back, got, want)
		}
	}
}

// TestPaceDecays has a node spend a token, and another as late as the time constant of
// its pace: of the first, one part in e is left.
func TestPaceDecays(t *testing.T) {
	var l Ledger
	l.Merge(nodeA, Report{Limit: 100, Spent: 1}, start)
	l.Merge(nodeA, Report{Limit: 100, Spent: 2}, start+paceOver)
	for after, want := range map[int64]float64{0: Token * (1 + math.Exp(-1)), paceOver: Token * (1 + math.Exp(-1)) * math.Exp(-1)} {
		if got := l.Share(nodeB, start+paceOver+after).Others; math.Abs(float64(got)-want) > 1 {
			t.Errorf("%d us later others spend %d grains a second, want %.0f", after, got, want)
		}
	}
}

// TestDueAfterAPause: a node is due again after DueEvery, or at once where the clock was
// put back.
func TestDueAfterAPause(t *testing.T) {
	for after, want := range map[int64]bool{-1: true, 0: false, DueEvery - 1: false, DueEvery: true} {
		var m Merger
		for range 2 {
			m.Merge(nodeA, map[string]Report{"k": {Limit: 100}}, start)
			m.Merge(nodeB, map[string]Report{"k": {Limit: 100}}, start)
			m.Due(start)
		}
		m.Merge(nodeA, map[string]Report{"k": {Limit: 100, Spent: 1}}, start)
		if due, more := m.Due(start + after); (len(due[nodeB]) == 1) != want || more == want {
			t.Errorf("%d us later: told %+v, more %t", after, due, more)
		}
	}
}

// TestUnreportedLedger: of a key that nobody has reported, nothing is missing.
func TestUnreportedLedger(t *testing.T) {
	var shared, forgotten Ledger
	if got, want := shared.Share(nodeA, start), (Share{Nodes: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !forgotten.Forget(start) {
		t.Error("it is not forgotten")
	}
}
