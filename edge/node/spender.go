package node

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store/local"
	"partneredge/store/ratelimit"
)

// spender tells the origin what the node lets through, and takes in what the
// origin says of it. Requests only note that there is something to tell.
type spender struct {
	buckets *local.Buckets
	link    *link
	log     *slog.Logger
	count   func(what string, n int) // reported, repeated, shares

	shares chan *nats.Msg
	wake   chan struct{} // holds one: something is to be told at once
	turn   chan struct{} // holds one: something is to be told with the next turn
	back   chan struct{} // holds one: the connection is there (again)

	mu     sync.Mutex
	urgent map[string]struct{}
	dirty  map[string]struct{}

	waiting map[string]*untold // run's
}

// untold is a key whose last report has not been answered.
type untold struct {
	due   time.Time
	tries int
}

const (
	spendEvery = 100 * time.Millisecond // a turn
	spendBatch = 1000                   // keys a message
	// spendAgain is how long a report waits for its answer before it is sent
	// again; twice as long after each time, three times.
	spendAgain = time.Second
	// spendSpread is the time over which nodes that come back together begin to
	// report, and spendPause what lies between two of their batches.
	spendSpread = 500 * time.Millisecond
	spendPause  = 20 * time.Millisecond
	sharesHeld  = 1024 // messages; those beyond are dropped, and come again
)

func newSpender(b *local.Buckets, log *slog.Logger, count func(string, int)) (*spender, error) {
	s := &spender{
		buckets: b, log: log, count: count,
		shares: make(chan *nats.Msg, sharesHeld), wake: make(chan struct{}, 1), turn: make(chan struct{}, 1), back: make(chan struct{}, 1),
		urgent: map[string]struct{}{}, dirty: map[string]struct{}{}, waiting: map[string]*untold{},
	}
	keys, err := b.Unacked()
	for _, id := range keys {
		s.dirty[id] = struct{}{}
	}
	return s, err
}

// note has the origin hear of a key. It never blocks.
func (s *spender) note(keyID string, tell ratelimit.Telling) {
	if tell == ratelimit.Nothing {
		return
	}
	s.mu.Lock()
	keys, run := s.dirty, s.turn
	if tell == ratelimit.Now {
		keys, run = s.urgent, s.wake
	}
	first := len(keys) == 0
	keys[keyID] = struct{}{}
	s.mu.Unlock()
	if first { // else run is to come already: waking it for each request costs as much as a request
		poke(run)
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// connected is called when there is a connection (again).
func (s *spender) connected() { poke(s.back) }

// run reports until ctx ends, and then once more.
func (s *spender) run(ctx context.Context) {
	turn := time.NewTimer(0)
	defer turn.Stop()
	armed := true
	arm := func(d time.Duration) {
		if !armed {
			turn.Reset(d)
			armed = true
		}
	}
	quiet := time.Time{} // nothing is reported before
	for {
		select {
		case <-ctx.Done():
			for s.tell(s.take(true)) == spendPause {
			}
			return
		case m := <-s.shares:
			s.apply(m)
			continue
		case <-s.back:
			quiet = time.Now().Add(rand.N(spendSpread))
			for _, w := range s.waiting {
				w.due, w.tries = quiet, 0
			}
			arm(time.Until(quiet))
		case <-s.wake:
			if time.Now().Before(quiet) {
				arm(time.Until(quiet))
				continue
			}
			if again := s.tell(s.take(false)); again > 0 {
				arm(again)
			}
		case <-s.turn:
			arm(spendEvery)
		case <-turn.C:
			armed = false
			if !s.link.up() {
				continue // back will tell
			}
			if now := time.Now(); now.Before(quiet) {
				arm(quiet.Sub(now))
				continue
			}
			if again := s.tell(s.take(true)); again > 0 {
				arm(again)
			}
		}
	}
}

// take are the keys that are to be told now: the urgent ones, and with all those
// of a turn and those that were told and not answered.
func (s *spender) take(all bool) (keys []string) {
	s.mu.Lock()
	for id := range s.urgent {
		if len(keys) == spendBatch {
			break
		}
		keys = append(keys, id)
		delete(s.urgent, id)
		delete(s.dirty, id)
	}
	if all {
		for id := range s.dirty {
			if len(keys) == spendBatch {
				break
			}
			keys = append(keys, id)
			delete(s.dirty, id)
		}
	}
	s.mu.Unlock()
	if !all {
		return keys
	}
	again, now := 0, time.Now()
	for id, w := range s.waiting {
		if len(keys) == spendBatch {
			break
		}
		if !now.Before(w.due) {
			keys = append(keys, id)
			again++
		}
	}
	s.count("repeated", again)
	return keys
}

// tell reports keys, and returns after how long there is more to do; 0 when
// there is nothing left.
func (s *spender) tell(keys []string) (again time.Duration) {
	if len(keys) > 0 {
		if err := s.report(keys); err != nil {
			s.mu.Lock()
			for _, id := range keys {
				s.dirty[id] = struct{}{}
			}
			s.mu.Unlock()
			if s.link.up() {
				s.log.Warn("spending not reported", "keys", len(keys), "err", err)
			}
			return spendEvery
		}
	}
	s.mu.Lock()
	left := len(s.urgent) + len(s.dirty)
	s.mu.Unlock()
	switch {
	case len(keys) == spendBatch:
		return spendPause
	case left+len(s.waiting) > 0:
		return spendEvery
	}
	return 0
}

func (s *spender) report(keys []string) error {
	if !s.link.up() {
		return nats.ErrDisconnected
	}
	reports, err := s.buckets.Reports(keys)
	if err != nil {
		return err
	}
	if err := s.link.tell(wire.VerbSpend, &wire.Spend{Boot: s.buckets.Boot(), Keys: reports}); err != nil {
		return err
	}
	s.count("reported", len(reports))
	now := time.Now()
	for _, id := range keys {
		if _, known := reports[id]; !known {
			delete(s.waiting, id)
			continue
		}
		w := s.waiting[id]
		if w == nil {
			w = new(untold)
			s.waiting[id] = w
		}
		// The time runs from the first report that was not answered.
		if !now.Before(w.due) {
			w.due = now.Add(spendAgain << w.tries)
			w.tries = min(w.tries+1, 3)
		}
	}
	return nil
}

// apply takes in what the origin says.
func (s *spender) apply(m *nats.Msg) {
	var share wire.Share
	if !s.link.hear(wire.VerbShare, m.Data, &share) {
		return
	}
	if share.Boot != s.buckets.Boot() {
		return // for counters that were lost
	}
	behind, err := s.buckets.Apply(share.Keys)
	if err != nil {
		s.log.Error("cannot take in shares", "err", err)
		return
	}
	s.count("shares", len(share.Keys))
	for id := range share.Keys {
		if !behind[id] {
			delete(s.waiting, id)
		}
	}
}
