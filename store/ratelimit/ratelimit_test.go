package ratelimit

import (
	"container/heap"
	"math/rand/v2"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// simulation is of nodes and an origin on a virtual clock, with a link that takes a
// while each way.
type simulation struct {
	now      int64
	oneWay   int64
	interval int64 // between a node's reports
	limit    int
	nodes    []Account
	dirty    []bool
	ledger   Ledger
	events   events
	admitted int
	refused  int
	cut      bool    // the link drops everything
	second   *Ledger // of another origin, which gets every report too; nil: there is none
	unheard  bool    // the second origin's link drops everything
}

type event struct {
	at  int64
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any     { last := (*e)[len(*e)-1]; *e = (*e)[:len(*e)-1]; return last }

const start = 1_700_000_000_000_000

func newSimulation(nodes, limit int) *simulation {
	s := &simulation{now: start, oneWay: 40_000, interval: 100_000, limit: limit, nodes: make([]Account, nodes), dirty: make([]bool, nodes)}
	for i := range nodes {
		s.tick(i, start+int64(i)*s.interval/int64(nodes))
	}
	return s
}

func (s *simulation) at(t int64, do func()) {
	heap.Push(&s.events, event{t, s.events.Len() + s.admitted + s.refused, do})
}

func (s *simulation) tick(node int, t int64) {
	s.at(t, func() {
		if s.dirty[node] {
			s.report(node)
		}
		s.tick(node, t+s.interval)
	})
}

func (s *simulation) report(node int) {
	s.dirty[node] = false
	r := s.nodes[node].Report(s.limit, s.now)
	if s.cut {
		return
	}
	s.at(s.now+s.oneWay, func() {
		s.merge(&s.ledger, node, r)
		if s.second != nil && !s.unheard {
			s.merge(s.second, node, r)
		}
	})
}

// merge has one origin merge a report and tell all nodes.
func (s *simulation) merge(ledger *Ledger, node int, r Report) {
	ledger.Merge(name(node), r, s.now)
	ledger.Active(s.now, func(to Reporter) {
		share := ledger.Share(to, s.now)
		s.at(s.now+s.oneWay, func() {
			i, _ := strconv.Atoi(to.Node)
			s.nodes[i].Apply(share, s.limit, s.now)
		})
	})
}

func name(node int) Reporter { return Reporter{Node: strconv.Itoa(node)} }

// take sends a request to a node and reports whether it was admitted.
func (s *simulation) take(node int) bool {
	answer, tell := s.nodes[node].Take(s.limit, s.now)
	if answer.Allowed {
		s.admitted++
	} else {
		s.refused++
	}
	switch tell {
	case ReportNow:
		s.report(node)
	case ReportSoon:
		s.dirty[node] = true
	}
	return answer.Allowed
}

// run goes on until t.
func (s *simulation) run(t int64) {
	for s.events.Len() > 0 && s.events[0].at <= t {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.now = t
}

// drive sends perSecond requests a second in total for seconds, each to the node
// that pick names.
func (s *simulation) drive(perSecond float64, seconds int, pick func(i int) int) {
	first := s.now
	for i := range int(perSecond * float64(seconds)) {
		s.run(first + int64(float64(i)*1e6/perSecond))
		s.take(pick(i))
	}
	s.run(first + int64(seconds)*1_000_000)
}

func TestOverAdmission(t *testing.T) {
	for _, tt := range []struct {
		perSecond float64
		most      float64 // per cent over the ideal single bucket
		least     float64 // and under it
	}{
		{5, 3, 10}, {20, 3, 10}, {50, 3, 10}, {2000, 5, 10},
	} {
		for _, spread := range []string{"in turn", "at random", "together"} {
			s := newSimulation(10, 100)
			rng := rand.New(rand.NewPCG(1, 2))
			switch spread {
			case "in turn":
				s.drive(tt.perSecond, 60, func(i int) int { return i % 10 })
			case "at random":
				s.drive(tt.perSecond, 60, func(int) int { return rng.IntN(10) })
			case "together":
				first := s.now
				for i := range int(tt.perSecond * 6) {
					s.run(first + int64(float64(i)*1e7/tt.perSecond))
					for node := range 10 {
						s.take(node)
					}
				}
				s.run(first + 60_000_000)
			}
			ideal := 200.0
			over := (float64(s.admitted) - ideal) / ideal * 100
			t.Logf("%.0f a second %s: %d admitted, %+.1f %%", tt.perSecond, spread, s.admitted, over)
			if over > tt.most || over < -tt.least {
				t.Errorf("%.0f a second %s: %+.1f %% over the ideal bucket", tt.perSecond, spread, over)
			}
		}
	}
}

func TestNeverRefusedBelowTheLimit(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := newSimulation(10, 100)
		s.drive(1.5, 600, func(int) int { return rng.IntN(10) })
		if s.refused != 0 {
			t.Errorf("seed %d: %d of 900 refused at 1.5 a second", seed, s.refused)
		}
	}
}

// A key that is used at one node gets there what a single bucket would give it,
// to the last token, though the origin always hears of it late.
func TestOneNodeIsExactBesideItsOrigin(t *testing.T) {
	for _, limit := range []int{20, 100, 6000} {
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 2))
			s := newSimulation(1, limit)
			var ideal Account
			for i := range 2000 {
				// Now above the limit, now below, now at rest.
				wait := rng.ExpFloat64() * 60e6 / float64(limit) * []float64{0.3, 1, 3}[i/200%3]
				s.run(s.now + int64(wait))
				want, _ := ideal.Take(limit, s.now)
				if got := s.take(0); got != want.Allowed {
					t.Fatalf("limit %d, seed %d, request %d: let through %v, by one bucket %v", limit, seed, i, got, want.Allowed)
				}
			}
		}
	}
}

// Whoever sends no more than the limit in any minute is never refused, however
// the minute's requests are spread over nodes and time, but for a burst at many
// nodes at once.
func TestNeverRefusedUpToTheLimitInAnyMinute(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newSimulation(10, 100)
		var sent []int64 // of the last minute
		for range 2000 {
			s.run(s.now + int64(rng.ExpFloat64()*60e6/110))
			for len(sent) > 0 && s.now-sent[0] >= 60_000_000 {
				sent = sent[1:]
			}
			if len(sent) == 100 {
				continue
			}
			sent = append(sent, s.now)
			s.take(rng.IntN(10))
		}
		if s.refused != 0 {
			t.Errorf("seed %d: %d refused", seed, s.refused)
		}
	}
}

func TestBurstOnOneNodeBesideQuietOnes(t *testing.T) {
	s := newSimulation(10, 100)
	s.drive(1, 30, func(i int) int { return i % 10 })
	for i := range 80 {
		if !s.take(3) {
			t.Fatalf("request %d of a burst was refused with 80 tokens there", i)
		}
	}
}

// TestBurstSoonAfterAnotherNodeBegan: a node that was used once, and not again, holds nothing
// of a burst elsewhere back, though no share has come since its pace was unknown.
func TestBurstSoonAfterAnotherNodeBegan(t *testing.T) {
	s := newSimulation(2, 100)
	s.take(0)
	s.run(start + 10_000)
	s.take(1)
	s.run(start + 1_500_000)
	for range 98 {
		s.take(0)
	}
	if s.refused > 0 {
		t.Errorf("%d of 98 refused, and 100 used in the minute", s.refused)
	}
}

func TestIdleKeyAdmitsItsWholeBurstOnOneNode(t *testing.T) {
	s := newSimulation(3, 100)
	for i := range 100 {
		if !s.take(1) {
			t.Fatalf("request %d was refused", i)
		}
	}
	if s.take(1) {
		t.Error("request 101 went through")
	}
}

func TestDebtIsRepaid(t *testing.T) {
	s := newSimulation(10, 100)
	s.cut = true
	for node := range 10 {
		for range 100 {
			s.take(node)
		}
	}
	s.cut = false
	s.drive(50, 600, func(i int) int { return i % 10 })
	// 1000 at once, then nothing until ten minutes' refill has paid for it.
	if got, most := s.admitted, 100+10*100+10; got > most {
		t.Errorf("%d admitted in ten minutes, at most %d were there", got, most)
	}
}

func TestCutOffNodeLimitsOnItsOwn(t *testing.T) {
	s := newSimulation(1, 100)
	s.cut = true
	s.drive(10, 60, func(int) int { return 0 })
	if s.admitted != 200-1 && s.admitted != 200 {
		t.Errorf("%d admitted, want an ideal bucket's 200", s.admitted)
	}
}

// What was let through within the limit while nodes were cut off is no debt when
// they are back, however much it was: the bucket has regained it meanwhile.
func TestAnHourCutOffIsNoDebt(t *testing.T) {
	s := newSimulation(3, 100)
	each := func(i int) int { return i % 3 }
	s.drive(1.5, 20, each)
	s.cut = true
	s.drive(1.5, 3600, each)
	s.cut = false
	s.drive(1.5, 120, each)
	if s.refused > 0 {
		t.Errorf("%d of %d requests below the limit were refused", s.refused, s.refused+s.admitted)
	}
}

// What was let through last is owed.
func TestBurstWhileCutOffIsOwed(t *testing.T) {
	const burst = 80
	s := newSimulation(2, 100)
	each := func(i int) int { return i % 2 }
	s.drive(1, 20, each)
	s.cut = true
	s.drive(1, 600, each)
	for node := range 2 {
		for range burst {
			s.take(node)
		}
	}
	s.cut = false
	s.drive(1, 2, each)
	if got := s.ledger.Share(Reporter{}, s.now).Missing / Token; got < 2*burst-10 || got > 2*burst+5 {
		t.Errorf("%d tokens are missing from the bucket, %d were spent at once", got, 2*burst)
	}
}

// TestOriginThatStartedAnewForgivesNobody has either node be the first to report a key to
// an origin that knows nothing: the one that spent its tokens, and one that knows nothing
// of the key either.
func TestOriginThatStartedAnewForgivesNobody(t *testing.T) {
	for first := range 2 {
		s := newSimulation(2, 100)
		for range 100 {
			s.take(0)
		}
		s.run(s.now + 1_000_000)
		s.ledger = Ledger{}
		s.take(first) // node 0 refuses, or uses a token that came back
		s.drive(10, 5, func(i int) int { return (first + i) % 2 })
		// Ten tokens came back in six seconds; node 1 may have begun before it heard.
		if s.admitted > 100+12 {
			t.Errorf("node %d first: %d admitted", first, s.admitted)
		}
	}
}

// TestOriginThatWasCutOff has one of two origins hear nothing for some minutes, while the other
// confirms what nodes spend. What the bucket has regained of that is no debt afterwards, and a
// key that is always used up has its limit in each minute all the same.
func TestOriginThatWasCutOff(t *testing.T) {
	for _, minutes := range []int{1, 5, 9, 11} {
		for perMinute, want := range map[float64]int{80: 80, 300: 100} {
			s := newSimulation(3, 100)
			s.second = new(Ledger)
			rng := rand.New(rand.NewPCG(uint64(minutes), 4))
			minute := func() int {
				before := s.admitted
				s.drive(perMinute/60, 60, func(int) int { return rng.IntN(3) })
				return s.admitted - before
			}
			minute()
			minute()
			s.unheard = true
			for range minutes {
				minute()
			}
			s.unheard = false
			for after := range 4 {
				if got := minute(); got < want-1 || got > want+1 {
					t.Errorf("%d minutes cut off, %.0f a minute: %d admitted in minute %d after it, want %d", minutes, perMinute, got, after+1, want)
				}
			}
			if perMinute < 100 && s.refused > 0 {
				t.Errorf("%d minutes cut off: %d refused of a key below its limit", minutes, s.refused)
			}
		}
	}
}

// Reports may be lost, repeated and overtaken: once the last one of each node
// arrives, the sum is that of the counters.
func TestMergeIsOrderless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 1000
		nodes := rapid.IntRange(1, 5).Draw(t, "nodes")
		var reports []Report
		var owner []Reporter
		var total int64
		for n := range nodes {
			var spent int64
			for range rapid.IntRange(1, 6).Draw(t, "reports") {
				spent += rapid.Int64Range(0, 20).Draw(t, "news")
				reports = append(reports, Report{Limit: limit, Spent: spent})
				owner = append(owner, name(n))
			}
			total += spent
		}
		order := rapid.Permutation(indices(len(reports))).Draw(t, "order")
		var l Ledger
		for _, i := range order {
			for range rapid.IntRange(0, 2).Draw(t, "copies") {
				l.Merge(owner[i], reports[i], start)
			}
		}
		for i := range reports { // resent at last
			l.Merge(owner[i], reports[i], start)
		}
		if got := l.Share(Reporter{}, start).Missing; got != total*Token {
			t.Fatalf("%d tokens missing, %d were spent", got/Token, total)
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// An account that was given up when it was settled, and begun again, adds up with
// what it was before, whatever is lost and repeated.
func TestCountersThatBeginAgainAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 1000
		var a Account
		var l Ledger
		var total, floor int64
		now := int64(start)
		var sent []Report
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0:
				if got, _ := a.Take(limit, now); got.Allowed {
					total++
				}
			case 1: // a report that is lost, or comes late
				sent = append(sent, a.Report(limit, now))
			case 2:
				if len(sent) > 0 {
					l.Merge(Reporter{}, sent[rapid.IntRange(0, len(sent)-1).Draw(t, "late")], now)
				}
			case 3: // settled; some minutes later it is given up
				sent = append(sent, a.Report(limit, now))
				l.Merge(Reporter{}, sent[len(sent)-1], now)
				a.Apply(l.Share(Reporter{}, now), limit, now)
				if rapid.Bool().Draw(t, "give up") {
					now += 120_000_000
					if !a.Idle(limit, now) {
						t.Fatalf("%+v is not settled", a)
					}
					floor, total = max(floor, a.Spent), 0
					a = NewAccount(floor)
				}
			}
		}
		l.Merge(Reporter{}, a.Report(limit, now), now)
		share := l.Share(Reporter{}, now)
		if share.Missing != total*Token || share.Spent != a.Spent {
			t.Fatalf("%d tokens missing, %d were spent; share %+v of %+v", share.Missing/Token, total, share, a)
		}
	})
}

// Shares may come late and twice: the account never holds more than the origin
// last said remains.
func TestApplyNeverGivesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 60
		var a Account
		var l Ledger
		var shares []Share
		now := int64(start)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, 300_000).Draw(t, "wait")
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0, 1:
				a.Take(limit, now)
			case 2:
				l.Merge(Reporter{}, a.Report(limit, now), now)
				shares = append(shares, l.Share(Reporter{}, now))
			case 3:
				if len(shares) > 0 {
					a.Apply(shares[rapid.IntRange(0, len(shares)-1).Draw(t, "which")], limit, now)
				}
			}
			if a.Spent < a.Acked || a.Missing < 0 {
				t.Fatalf("account %+v", a)
			}
		}
		elapsed := now - start
		if most := limit + elapsed*limit/60_000_000 + 1; a.Spent > most {
			t.Fatalf("%d spent in %d us, at most %d were there", a.Spent, elapsed, most)
		}
	})
}

func TestBucketIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, MaxLimit).Draw(t, "limit")
		whole := Bucket{Missing: rapid.Int64Range(0, limit*Token).Draw(t, "missing"), At: start}
		steps := whole
		end := int64(start)
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			end += rapid.Int64Range(0, 10_000_000).Draw(t, "wait")
			steps.Settle(limit, end)
		}
		whole.Settle(limit, end)
		if steps != whole {
			t.Fatalf("looked at often %+v, once %+v", steps, whole)
		}
	})
}

func TestAccountRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Account{Bucket: Bucket{rapid.Int64().Draw(t, "missing"), rapid.Int64().Draw(t, "at")},
			Spent: rapid.Int64().Draw(t, "spent"), Acked: rapid.Int64().Draw(t, "acked"), Sent: rapid.Int64().Draw(t, "sent"),
			SharedAt: rapid.Int64().Draw(t, "shared"), Nodes: rapid.Int64().Draw(t, "nodes"),
			Others: rapid.Int64().Draw(t, "others"), From: rapid.Int64().Draw(t, "from"), PaceIsUnknown: rapid.Bool().Draw(t, "pace is unknown")}
		got, err := Parse(a.Append(nil))
		if err != nil || got != a {
			t.Fatalf("%+v, %v; want %+v", got, err, a)
		}
	})
}

// versionTwo is b as it is written today, if it is an account.
func versionTwo(b []byte) []byte {
	if len(b) != 2+8*8 {
		return b
	}
	return append(append([]byte{2}, b[1:]...), make([]byte, 8)...)
}

func FuzzParse(f *testing.F) {
	f.Add((&Account{Spent: 7}).Append(nil))
	f.Add([]byte{1, 2, 3})
	f.Add(append([]byte{1, 0}, make([]byte, 64)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := Parse(b)
		if b = versionTwo(b); err == nil && string(a.Append(nil)) != string(b) {
			t.Errorf("%x reads as %+v, which writes as something else", b, a)
		}
	})
}
