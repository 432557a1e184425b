// Command regions runs the rate limit's own code for many nodes and keys on a
// virtual clock, and prints what it costs and how well it holds: messages and
// bytes a second at the origin and at a node, requests let through beyond an
// ideal single bucket, requests refused that it would have let through, and how
// old a node's knowledge is when it decides.
//
// A key is below its limit when it never sends more than that in any minute.
// One that does, and never yet found the ideal bucket empty, is on its way
// through the last tokens, which no two nodes can both give away unasked: those
// are counted by themselves.
//
//	go run ./scripts/bench/regions [-nodes 1000] [-keys 1000000] [-rate 50000] [-seconds 60]
//
// Keys differ in how often they are used (Zipf) and in how many nodes use them:
// 80 % one, 15 % three, 5 % ten. Besides, 100 keys go over their limit, at ten
// nodes each, at 5 requests a second.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"partneredge/store/ratelimit"
)

const (
	step   = 5_000   // microseconds of a step of the clock
	oneWay = 40_000  // microseconds of the link, each way
	period = 100_000 // microseconds between a node's reports
	limit  = 100     // requests a minute
	greedy = 100     // keys that go over it
	pace   = 5       // their requests a second
	spread = 10      // their nodes
	epoch  = 1_700_000_000_000_000
)

func main() {
	nodes := flag.Int("nodes", 1000, "nodes")
	keys := flag.Int("keys", 1_000_000, "keys")
	rate := flag.Int("rate", 50_000, "requests a second in all")
	seconds := flag.Int("seconds", 60, "of virtual time")
	flag.Parse()
	if *nodes < spread || *keys < 1 || *rate < 1 || *seconds < 1 {
		fmt.Fprintln(os.Stderr, "regions: at least 10 nodes, and 1 of everything else")
		os.Exit(2)
	}
	s := newSim(*nodes, *keys)
	s.run(*rate, *seconds)
	s.print(*seconds)
}

type sim struct {
	now    int64
	rng    *rand.Rand
	zipf   *rand.Zipf
	nodes  []node
	merger ratelimit.Merger
	// What is under way: a ring of steps, one link's delay long.
	toOrigin, toNode [][]message
	keys             map[string]*tally
	sums
}

type node struct {
	accounts map[string]*ratelimit.Account
	dirty    map[string]struct{}
}

type message struct {
	node    int
	reports map[string]ratelimit.Report
	shares  map[string]ratelimit.Share
}

// tally is one key beside an ideal single bucket that gets the same requests.
type tally struct {
	ideal           ratelimit.Account
	admitted, best  int     // let through by the nodes, by the ideal
	refused, denied int     // refused by the nodes, by the ideal
	minute          []int64 // when its requests of the last minute came
	above           bool    // there were more than the limit, once
}

type sums struct {
	requests                int
	reports, shares         int
	reportBytes, shareBytes int
	staleness               []int64
}

func newSim(nodes, keys int) *sim {
	rng := rand.New(rand.NewPCG(1, 2))
	s := &sim{
		now: epoch, rng: rng, zipf: rand.NewZipf(rng, 1.05, 20, uint64(keys-1)),
		nodes: make([]node, nodes), keys: map[string]*tally{},
		toOrigin: make([][]message, oneWay/step+1), toNode: make([][]message, oneWay/step+1),
	}
	for i := range s.nodes {
		s.nodes[i] = node{map[string]*ratelimit.Account{}, map[string]struct{}{}}
	}
	return s
}

func (s *sim) run(rate, seconds int) {
	perStep := rate * step / 1_000_000
	for n := range seconds * 1_000_000 / step {
		s.now = epoch + int64(n)*step
		s.deliver(n)
		for range max(1, perStep) {
			key := s.zipf.Uint64()
			s.request("k"+strconv.FormatUint(key, 36), s.home(key))
		}
		for g := range greedy {
			// Each greedy key comes at even times, its nodes in turn.
			if every := 1_000_000 / step / pace; (n+g)%every == 0 {
				s.request("g"+strconv.Itoa(g), (g*spread+(n/every)%spread)%len(s.nodes))
			}
		}
		for i := n % (period / step); i < len(s.nodes); i += period / step {
			s.report(i, n)
		}
		due, _ := s.merger.Due(s.now)
		for reporter, shares := range due {
			s.share(reporter, shares, n)
		}
	}
}

// home is a node that a key is used at.
func (s *sim) home(key uint64) int {
	wide := uint64(1)
	switch key % 20 {
	case 0:
		wide = 10
	case 1, 2, 3:
		wide = 3
	}
	return int((key*7919 + s.rng.Uint64N(wide)*104729) % uint64(len(s.nodes)))
}

func (s *sim) request(key string, at int) {
	n := &s.nodes[at]
	account := n.accounts[key]
	if account == nil {
		account = new(ratelimit.Account)
		n.accounts[key] = account
	}
	k := s.keys[key]
	if k == nil {
		k = new(tally)
		s.keys[key] = k
	}
	if account.SharedAt != 0 && account.Nodes > 1 && s.now-account.SharedAt < ratelimit.FreshFor {
		s.staleness = append(s.staleness, s.now-account.SharedAt)
	}
	got, tell := account.Take(limit, s.now)
	want, _ := k.ideal.Take(limit, s.now)
	s.requests++
	k.count(got.Allowed, want.Allowed)
	k.note(s.now)
	switch tell {
	case ratelimit.ReportNow:
		n.dirty[key] = struct{}{}
		s.report(at, int((s.now-epoch)/step))
	case ratelimit.ReportSoon:
		n.dirty[key] = struct{}{}
	}
}

func (t *tally) count(allowed, ideal bool) {
	if allowed {
		t.admitted++
	} else {
		t.refused++
	}
	if ideal {
		t.best++
	} else {
		t.denied++
	}
}

func (t *tally) note(now int64) {
	if t.above {
		return
	}
	for len(t.minute) > 0 && now-t.minute[0] >= 60_000_000 {
		t.minute = t.minute[1:]
	}
	if t.minute = append(t.minute, now); len(t.minute) > limit {
		t.above, t.minute = true, nil
	}
}

// report sends what a node has to tell.
func (s *sim) report(at, step int) {
	n := &s.nodes[at]
	if len(n.dirty) == 0 {
		return
	}
	reports := make(map[string]ratelimit.Report, len(n.dirty))
	for key := range n.dirty {
		reports[key] = n.accounts[key].Report(limit, s.now)
	}
	clear(n.dirty)
	s.reports++
	s.reportBytes += size(reports)
	slot := (step + oneWayStep) % len(s.toOrigin)
	s.toOrigin[slot] = append(s.toOrigin[slot], message{node: at, reports: reports})
}

const oneWayStep = oneWay / step

func (s *sim) share(reporter ratelimit.Reporter, shares map[string]ratelimit.Share, step int) {
	at, _ := strconv.Atoi(reporter.Node)
	s.shares++
	s.shareBytes += size(shares)
	slot := (step + oneWayStep) % len(s.toNode)
	s.toNode[slot] = append(s.toNode[slot], message{node: at, shares: shares})
}

func (s *sim) deliver(step int) {
	slot := step % len(s.toOrigin)
	arrived := s.toOrigin[slot]
	s.toOrigin[slot] = nil
	for _, m := range arrived {
		reporter := ratelimit.Reporter{Node: strconv.Itoa(m.node)}
		s.share(reporter, s.merger.Merge(reporter, m.reports, s.now), step)
	}
	slot = step % len(s.toNode)
	told := s.toNode[slot]
	s.toNode[slot] = nil
	for _, m := range told {
		for key, share := range m.shares {
			s.nodes[m.node].accounts[key].Apply(share, limit, s.now)
		}
	}
}

// size is a message's size on the wire: its JSON, and a line of subject and
// envelope.
func size(v any) int {
	const envelope = 100
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return len(b) + envelope
}

func (s *sim) print(seconds int) {
	perSecond := func(n int) string { return strconv.Itoa(n / seconds) }
	kb := func(n int) string { return strconv.Itoa(n/seconds/1000) + " kB" }
	nodes := len(s.nodes)
	slices.Sort(s.staleness)
	at := func(q float64) string {
		if len(s.staleness) == 0 {
			return "none"
		}
		return strconv.FormatInt(s.staleness[int(q*float64(len(s.staleness)-1))]/1000, 10) + " ms"
	}
	var best, over, above, honest, wronged, last, lastRefused int
	for _, k := range s.keys {
		best += k.best
		over += max(0, k.admitted-k.best)
		switch {
		case !k.above:
			honest += k.best
			wronged += k.refused
		case k.denied == 0:
			last += k.best
			lastRefused += k.refused
			fallthrough
		default:
			above++
		}
	}
	var greedyAdmitted, greedyBest int
	for g := range greedy {
		k := s.keys["g"+strconv.Itoa(g)]
		greedyAdmitted += k.admitted
		greedyBest += k.best
	}
	percent := func(n, of int) string { return fmt.Sprintf("%.3f %%", 100*float64(n)/float64(max(1, of))) }
	rows := [][2]string{
		{"requests a second", perSecond(s.requests)},
		{"reports a second at the origin", perSecond(s.reports)},
		{"report bytes a second at the origin", kb(s.reportBytes)},
		{"shares a second at the origin", perSecond(s.shares)},
		{"share bytes a second at the origin", kb(s.shareBytes)},
		{"messages a second at a node", perSecond((s.reports + s.shares) / nodes)},
		{"bytes a second at a node", perSecond((s.reportBytes+s.shareBytes)/nodes) + " B"},
		{"keys used, and over their limit", fmt.Sprintf("%d, %d", len(s.keys), above)},
		{"let through over the ideal, all keys", percent(over, best)},
		{"let through over the ideal, greedy keys", fmt.Sprintf("%+.2f %%", 100*(float64(greedyAdmitted)/float64(max(1, greedyBest))-1))},
		{"refused of keys below their limit", fmt.Sprintf("%d of %d", wronged, honest)},
		{"refused of keys above it with tokens left", fmt.Sprintf("%d of %d", lastRefused, last)},
		{"age of what shared keys' nodes know, p50", at(.5)},
		{"age of what shared keys' nodes know, p99", at(.99)},
		{"keys known at the origin", strconv.Itoa(s.merger.Len())},
	}
	fmt.Printf("| %d nodes, %d s | |\n|---|---|\n", nodes, seconds)
	for _, r := range rows {
		fmt.Printf("| %s | %s |\n", r[0], r[1])
	}
}
