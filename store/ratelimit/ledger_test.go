package ratelimit

import (
	"errors"
	"math"
	"testing"
)

const second = int64(1_000_000) // microseconds

var nodeA, nodeB = Reporter{Node: "a"}, Reporter{Node: "b"}

// TestDebtIsCapped has nodes claim more than any bucket can owe. The debt stops at
// a thousand buckets, however often they claim it, and is paid off from there.
func TestDebtIsCapped(t *testing.T) {
	const limit = 100
	const most = 1000 * limit * Token
	for name, report := range map[string]Report{
		"missing": {Limit: limit, Missing: math.MaxInt64},
		"spent":   {Limit: limit, Spent: 1 << 50},
	} {
		var l Ledger
		for range 3 {
			l.Merge(nodeA, report, start)
			if got := l.Share(nodeB, start).Missing; got != most {
				t.Fatalf("%s: %d grains missing, want %d", name, got, int64(most))
			}
			report.Spent += 1 << 50
		}
		if got := l.Share(nodeB, start+60*second).Missing; got != most-limit*Token {
			t.Errorf("%s: a minute later %d grains missing, want %d", name, got, int64(most-limit*Token))
		}
	}
}

// TestPaceIsCapped has a node claim to spend a million tokens 500 times a second, for long
// enough that the pace is known. Beside it nobody is admitted from a bucket in debt, and
// whatever the bucket holds, what is left to others is never less than nothing.
func TestPaceIsCapped(t *testing.T) {
	const limit = 1000
	var l Ledger
	var now int64
	for n := range int64(5000) {
		now = start + n*second/500
		l.Merge(nodeA, Report{Limit: limit, Spent: n * 1_000_000}, now)
	}
	share := l.Share(nodeB, now)
	if share.PaceIsUnknown || share.Others != MaxLimit*Token {
		t.Errorf("told %+v, want the others' pace to be %d", share, int64(MaxLimit*Token))
	}
	for _, missing := range []int64{0, limit * Token / 2, limit * Token, share.Missing} {
		var a Account
		share.Missing = missing
		share.Nodes = 2
		a.Apply(share, limit, now)
		if reserve := a.reserve(limit, now); reserve < 0 {
			t.Errorf("%d grains missing: %d are left to others", missing, reserve)
		}
		if answer, _ := a.Take(limit, now); answer.Allowed && missing >= limit*Token {
			t.Errorf("%d grains missing: admitted", missing)
		}
	}
}

// TestDebtIsNotShared: beside other nodes a refused request is told to wait until the whole
// debt is paid off, as at a node alone.
func TestDebtIsNotShared(t *testing.T) {
	for nodes := range int64(4) {
		a := Account{Bucket: Bucket{Missing: 300 * Token, At: start}, SharedAt: start, Nodes: nodes}
		if got, _ := a.Take(100, start); got.Allowed || got.RetryMS != 120_600 {
			t.Errorf("%d nodes, in debt by 200 tokens: %+v, want 120600 ms to wait", nodes, got)
		}
	}
}

// TestDebtOutlivesTheOrigin has two nodes report a debt to an origin that knows nothing, in
// either order and beside one that knows as little. It counts once, less what is paid off.
func TestDebtOutlivesTheOrigin(t *testing.T) {
	const limit, debt = 100, 300 * Token
	owing := Report{Limit: limit, Spent: 9, Acked: 7, Missing: debt} // two tokens are news
	for who, order := range map[string][]Report{
		"the debtor first": {owing, {Limit: limit, Missing: debt}, {Limit: limit}},
		"the debtor last":  {{Limit: limit}, {Limit: limit, Missing: debt}, owing},
	} {
		var l Ledger
		for range 2 {
			for i, r := range order {
				l.Merge(name(i), r, start)
			}
		}
		if got := l.Share(nodeA, start+second).Missing; got != debt+2*Token-limit*second {
			t.Errorf("%s: %d grains missing, want %d", who, got, debt+2*Token-limit*second)
		}
	}
}

// TestSmallestLimitRefills holds of a key of one request a minute that neither a
// share nor forgetting regains more than one token a minute.
func TestSmallestLimitRefills(t *testing.T) {
	var l Ledger
	l.Merge(nodeA, Report{Limit: 1, Missing: Token}, start)
	if got := l.Share(nodeA, start+30*second).Missing; got != Token/2 {
		t.Errorf("after half a minute %d grains missing, want %d", got, Token/2)
	}
	for minutes, want := range map[int64]bool{14: false, 15: true} {
		var l Ledger
		l.Merge(nodeA, Report{Limit: 1, Missing: 15 * Token}, start)
		if got := l.Forget(start + minutes*60*second); got != want {
			t.Errorf("after %d minutes of 15 owed, forgotten: %t", minutes, got)
		}
	}
}

// TestWhoDrawsOnAKey follows what one node is told of another that spends: how
// many draw on the key, and how fast the other spends, once that is known.
func TestWhoDrawsOnAKey(t *testing.T) {
	var l Ledger
	if !l.Merge(nodeA, Report{Limit: 100, Spent: 5}, start) {
		t.Error("the first report is not of one who joined")
	}
	if l.Merge(nodeA, Report{Limit: 100, Spent: 5}, start+FreshFor-1) || !l.Merge(nodeA, Report{Limit: 100, Spent: 5}, start+2*FreshFor-1) {
		t.Error("who pauses for as long as shares are fresh joins anew, and nobody else")
	}
	l = *new(Ledger)
	l.Merge(nodeA, Report{Limit: 100, Spent: 5}, start)
	for _, c := range []struct {
		after   int64
		nodes   int64
		unknown bool
		paced   bool
	}{
		{0, 2, true, true},
		{learnFor - 1, 2, true, true},
		{learnFor, 2, false, true},
		{activeFor - 1, 2, false, true},
		{activeFor, 1, false, false},
	} {
		s := l.Share(nodeB, start+c.after)
		if s.Nodes != c.nodes || s.PaceIsUnknown != c.unknown || (s.Others > 0) != c.paced {
			t.Errorf("after %d us: %+v, want %d nodes, pace unknown %t", c.after, s, c.nodes, c.unknown)
		}
	}
	if s := l.Share(nodeA, start); s.Nodes != 1 || s.Spent != 5 || s.Others != 0 {
		t.Errorf("a node alone is told %+v", s)
	}
	// After a minute's pause its pace is learnt anew.
	l.Merge(nodeA, Report{Limit: 100, Spent: 6}, start+relearnAfter)
	if s := l.Share(nodeB, start+relearnAfter+learnFor-1); !s.PaceIsUnknown || s.Others == 0 {
		t.Errorf("after a pause: %+v", s)
	}
}

func TestNothingLeft(t *testing.T) {
	want := Share{Missing: 7 * Token, Spent: 3, Nodes: 1}
	if got := (Report{Limit: 7, Spent: 3}).NothingLeft(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestApplyRestoresTheCount: a node whose file lost the end of its count learns it
// from the origin, and reports from there on.
func TestApplyRestoresTheCount(t *testing.T) {
	a := NewAccount(2)
	a.Apply(Share{Missing: 5 * Token, Spent: 5, Nodes: 1}, 100, start)
	if a.Spent != 5 || a.Sent != 5 || a.Acked != 5 || a.Missing != 5*Token {
		t.Errorf("%+v", a)
	}
	if _, report := a.Take(100, start); report == NoReport || a.Spent != 6 {
		t.Errorf("the next token: %+v, report %v", a, report)
	}
}

// TestTakeLeavesWhatOthersSpend: beside a node that spends a token a second, 0.4
// of a token stays until the next share, and not a grain more or less.
func TestTakeLeavesWhatOthersSpend(t *testing.T) {
	const limit = 100
	for missing, want := range map[int64]bool{0: true, 1: false} {
		a := Account{
			Bucket:   Bucket{Missing: (limit-1)*Token - Token*4/10 + missing, At: start},
			SharedAt: start, Nodes: 2, Others: Token,
		}
		if got, _ := a.Take(limit, start); got.Allowed != want {
			t.Errorf("%d grains short: allowed %t", missing, got.Allowed)
		}
		a = Account{Bucket: Bucket{Missing: (limit-1)*Token + missing, At: start}}
		if got, _ := a.Take(limit, start); got.Allowed != want {
			t.Errorf("alone, %d grains short: allowed %t", missing, got.Allowed)
		}
	}
}

// TestParseVersions reads an account of either version, and refuses what is none.
func TestParseVersions(t *testing.T) {
	a := Account{Bucket: Bucket{Missing: 1, At: 2}, Spent: 3, Acked: 4, Sent: 5, SharedAt: 6, Nodes: 7, Others: 8, From: 9, PaceIsUnknown: true}
	two := a.Append(nil)
	one := append([]byte{1}, two[1:len(two)-8]...)
	before := a
	before.From = 0
	for name, c := range map[string]struct {
		text []byte
		want Account
	}{"version 2": {two, a}, "version 1": {one, before}} {
		if got, err := Parse(c.text); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	bad := [][]byte{{}, {1}, {2, 1}, one[:len(one)-1], two[:len(two)-1], append([]byte{3}, two[1:]...), append([]byte{0}, two[1:]...),
		append([]byte{1}, two[1:]...), append([]byte{2}, one[1:]...), append([]byte{2, 2}, two[2:]...)}
	for _, text := range bad {
		if got, err := Parse(text); !errors.Is(err, ErrAccount) {
			t.Errorf("%x is read as %+v", text, got)
		}
	}
}

// TestUnknownPaceLapses: an even part is left to others for learnFor after the share that
// says that their pace is unknown. From then on what they were known to spend is left.
func TestUnknownPaceLapses(t *testing.T) {
	const limit = 100
	for after, want := range map[int64]int64{0: limit * Token / 2, learnFor - 1: limit * Token / 2, learnFor: 4 * Token, FreshFor - 1: 4 * Token, FreshFor: 0} {
		var a Account
		a.Apply(Share{Nodes: 2, Others: 10 * Token, PaceIsUnknown: true}, limit, start)
		if got := a.reserve(limit, start+after); got != want {
			t.Errorf("%d us after the share: %d grains are left to others, want %d", after, got, want)
		}
	}
}

// TestManyWhoWake: when three known nodes begin again at once after a pause, the
// pace of all is unknown, since each took itself to be alone; two are no reason.
func TestManyWhoWake(t *testing.T) {
	for others, want := range map[int]bool{2: false, 3: true} {
		for after, unknown := range map[int64]bool{learnFor - 1: want, learnFor: false} {
			var l Ledger
			for _, at := range []int64{start, start + FreshFor} {
				for n := range others {
					l.Merge(Reporter{Node: string(rune('c' + n))}, Report{Limit: 100, Spent: at}, at)
				}
			}
			if s := l.Share(nodeA, start+FreshFor+after); s.PaceIsUnknown != unknown {
				t.Errorf("%d woke %d us ago: pace unknown %t", others, after, s.PaceIsUnknown)
			}
		}
	}
}

// TestATenthIsForAnyNode: while a tenth of the bucket is left, a node may use one
// token, however many draw on the key.
func TestATenthIsForAnyNode(t *testing.T) {
	const limit = 100
	for missing, want := range map[int64]bool{0: true, 1: false} {
		a := Account{
			Bucket:   Bucket{Missing: (limit-limit/10)*Token + missing, At: start},
			SharedAt: start, Nodes: 20, PaceIsUnknown: true,
		}
		if got, _ := a.Take(limit, start); got.Allowed != want {
			t.Errorf("%d grains below a tenth: allowed %t", missing, got.Allowed)
		}
	}
}

// TestNoNodeUsesHalfAToken: of a limit below ten, a tenth is no token, and admits nobody.
func TestNoNodeUsesHalfAToken(t *testing.T) {
	for left, wait := range map[int64]int64{Token / 10: 54_000, Token / 2: 30_000, Token - 1: 1, Token: 0} {
		a := Account{Bucket: Bucket{Missing: Token - left, At: start}, SharedAt: start, Nodes: 2}
		if got, _ := a.Take(1, start); got.Allowed != (wait == 0) || got.RetryMS != wait {
			t.Errorf("%d grains of a token: %+v, want %d ms to wait", left, got, wait)
		}
	}
}
