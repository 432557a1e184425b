package ratelimit

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSumsAreThoseOfAllNodes merges reports of many nodes, early ones again and in any
// order, with pauses and a clock that is put back, and holds after each what the ledger
// says of all nodes together to a walk over them.
func TestSumsAreThoseOfAllNodes(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		var l Ledger
		spent := make(map[Reporter]int64)
		now := int64(start)
		for range 300 {
			from := Reporter{Node: fmt.Sprint(random.IntN(12))}
			switch random.IntN(40) {
			case 0:
				now += activeFor + random.Int64N(activeFor)
			case 1:
				now += relearnAfter
			case 2:
				now += keepFor
			case 3:
				now -= clockSlack + random.Int64N(keepFor)
			case 4:
				now -= random.Int64N(clockSlack)
			default:
				now += random.Int64N(300_000)
			}
			spent[from] += random.Int64N(5)
			l.Merge(from, Report{Limit: 100, Spent: spent[from] - random.Int64N(2)}, now)
			for _, to := range []Reporter{from, {Node: "0"}, {Node: "stranger"}} {
				got, want := l.Share(to, now), l.walked(to, l.now)
				if off := got.Others - want.Others; off < -12 || off > 12 { // each pace was rounded
					t.Fatalf("seed %d: others spend %d, by a walk %d", seed, got.Others, want.Others)
				}
				if got.Others = want.Others; got != want {
					t.Fatalf("seed %d: %s is told %+v, by a walk %+v", seed, to.Node, got, want)
				}
			}
		}
	}
}

// walked is Share by a look at each counter.
func (l *Ledger) walked(to Reporter, now int64) Share {
	s := Share{Missing: l.bucket.Missing, Nodes: 1}
	woken := 0
	for e := l.seen.Front(); e != nil; e = e.Next() {
		c := e.Value.(*counter)
		if c.reporter == to {
			s.Spent = c.spent
			continue
		}
		if now-c.seen >= activeFor {
			continue
		}
		s.Nodes++
		if now-c.woke < learnFor {
			woken++
		}
		s.PaceIsUnknown = s.PaceIsUnknown || now-c.since < learnFor
		s.Others += int64(c.paceAt(now))
	}
	s.PaceIsUnknown = s.PaceIsUnknown || woken >= manyWoken
	return s
}

// TestSpendingIsTheSumOfAllNodes merges the same reports in different orders, some of
// them several times: what is missing is always what the nodes have spent together, and
// each is told its own count.
func TestSpendingIsTheSumOfAllNodes(t *testing.T) {
	type sent struct {
		from   Reporter
		report Report
	}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 2))
		var reports []sent
		last := make(map[Reporter]int64)
		sum := int64(0)
		for n := range 1 + random.IntN(50) {
			from := Reporter{Node: fmt.Sprint(n), Boot: "boot"}
			for range 1 + random.IntN(6) {
				last[from] += 1 + random.Int64N(9)
				reports = append(reports, sent{from, Report{Limit: 1000, Spent: last[from]}})
			}
			sum += last[from]
		}
		reports = append(reports, reports[:random.IntN(len(reports))]...)
		random.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
		var m Merger
		for _, r := range reports {
			m.Merge(r.from, map[string]Report{"key": r.report}, start)
			if random.IntN(4) == 0 {
				m.Due(start)
			}
		}
		for from, count := range last {
			s := m.Merge(from, map[string]Report{"key": {Limit: 1000, Spent: count}}, start)["key"]
			if s.Missing != sum*Token || s.Spent != count || s.Nodes != int64(len(last)) {
				t.Fatalf("seed %d: %s is told %+v, want %d tokens missing, %d of its own, %d nodes", seed, from.Node, s, sum, count, len(last))
			}
		}
	}
}
