package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/store"
	"partneredge/store/central/deliveries"
	"partneredge/store/signal"
)

// Sender makes the deliveries that wait in the database. It is safe for
// concurrent use.
type Sender struct {
	c         Config
	transport http.RoundTripper
	ctx       context.Context // of tries and writes; ends when the context of Stop does
	abandon   context.CancelFunc
	tries     sync.WaitGroup

	loops     sync.WaitGroup // all but the writers
	stopLoops context.CancelFunc
	writers   sync.WaitGroup
	stopWrite chan struct{}
	stopOnce  sync.Once
	stopErr   error

	// Each wakes a loop.
	claimNow, scanNow, refreshNow, writeNow signal.Signal

	mu        sync.Mutex
	stopping  bool
	queues    map[string]*queue   // by subscription
	accounts  map[string]*account // of the queues that had an item
	held      map[string]struct{} // deliveries in memory, until their outcomes are written
	heldBytes int
	claiming  bool     // a claim that is under way may have read what was written since
	written   []string // deliveries to drop from held when the claim has ended
	lanes     *lanes
	idle      []worker
	outcomes  []outcome
	tails     map[chan store.Tried]bool
	sweptAt   time.Time
	stats     Stats

	// Of held and heldBytes, what is for endpoints that are not trusted.
	untrusted, untrustedBytes int
	// Queues to be filled by claims, and how many claims there were.
	refills twoRanks
	claims  int
	// Queues whose endpoints are to be read again, and how many at a time.
	stale        twoRanks
	refreshBatch int
	refreshSoon  bool      // a timer that starts to read them is set
	refreshing   int       // queries under way that read them
	refreshedAt  time.Time // when the last of these began
	slowReadAt   time.Time // when the log last told of a slow one
}

// Stats counts what a Sender did and has under way.
type Stats struct {
	// Since the start: tries that were acknowledged, tries that were not, deliveries
	// whose tries were used up or that were given up, and those cancelled on the way.
	Delivered, Failed, Dead, Cancelled int64
	// At the moment: deliveries in memory, tries under way that are expected to be
	// answered soon and those that are not, and known queues.
	Held, Fast, Slow, Queues int
}

// Start returns at once; the Sender works until Stop. ctx bounds the start alone.
func Start(ctx context.Context, c Config) (*Sender, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	s := &Sender{
		c:          c,
		transport:  c.transport,
		stopWrite:  make(chan struct{}),
		claimNow:   signal.New(),
		scanNow:    signal.New(),
		refreshNow: signal.New(),
		writeNow:   signal.New(),
		queues:     make(map[string]*queue),
		accounts:   make(map[string]*account),
		held:       make(map[string]struct{}),
		tails:      make(map[chan store.Tried]bool),
		lanes:      newLanes(&c),

		refreshBatch: refreshMost,
	}
	if s.transport == nil {
		transport, err := newTransport(c)
		if err != nil {
			return nil, fmt.Errorf("start webhook sender: %w", err)
		}
		s.transport = newAging(transport, c.connectionAge)
		warnOfNoRoots(c)
	}
	if !c.newOwner { // what a killed process of this name held
		if _, err := c.Store.EndLeases(ctx, c.Owner); err != nil {
			return nil, fmt.Errorf("start webhook sender: %w", err)
		}
	}
	if err := c.Store.SetClaimer(&deliveries.Claimer{Owner: c.Owner, Lease: c.Lease, Accept: s.accept, Claimed: s.claimed}); err != nil {
		return nil, fmt.Errorf("start webhook sender: %w", err)
	}
	s.ctx, s.abandon = context.WithCancel(context.Background())
	loops, stopLoops := context.WithCancel(context.Background())
	s.stopLoops = stopLoops
	s.loops.Go(func() { s.each(loops, s.claimNow, "claim webhook deliveries", s.claim) })
	for range refreshers {
		s.loops.Go(func() { s.each(loops, s.refreshNow, "read webhook endpoints", s.refresh) })
	}
	s.loops.Go(func() { s.scanLoop(loops) })
	for range c.writers {
		s.writers.Go(func() { s.writeLoop(s.ctx, s.stopWrite) })
	}
	return s, nil
}

// Wake starts a search of the database for deliveries that are due and that no Claimer
// accepted: written by this process or, where several share the database, by
// another.
func (s *Sender) Wake() { s.scanNow.Send() }

// Stats returns the counts of this moment.
func (s *Sender) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.stats
	now.Held, now.Queues = len(s.held), len(s.queues)
	now.Fast = s.lanes.provenTries.inFlight + s.lanes.trialTries.inFlight
	now.Slow = s.lanes.slowTries.inFlight + s.lanes.movedTries.inFlight
	return now
}

// Stop starts no more tries, waits for those under way and writes their outcomes,
// as long as ctx lasts; then it ends its leases. Tries that are cut short by ctx
// are made again by the next process. Later calls wait for the first and return
// its error.
func (s *Sender) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

func (s *Sender) stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true // no try starts from here on
	for _, w := range s.idle {
		close(w)
	}
	s.idle = nil
	for _, q := range s.queues {
		if q.timer != nil {
			q.timer.Stop()
		}
	}
	s.mu.Unlock()
	err := s.c.Store.SetClaimer(nil)
	s.stopLoops()
	s.loops.Wait()
	cut := context.AfterFunc(ctx, s.abandon)
	defer cut()
	s.tries.Wait()
	close(s.stopWrite)
	s.writers.Wait()
	s.abandon()
	// Briefly even when ctx has ended: it spares the next process the wait.
	ending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	atLeast := time.AfterFunc(s.c.endLeasesFor, func() { context.AfterFunc(ctx, cancel) })
	defer atLeast.Stop()
	_, unleased := s.c.Store.EndLeases(ending, s.c.Owner)
	if t, ok := s.transport.(*aging); ok {
		t.CloseIdleConnections()
	}
	if err := errors.Join(err, unleased); err != nil {
		return fmt.Errorf("stop webhook sender: %w", err)
	}
	return nil
}

// each calls step after each signal, again and again until step has nothing more
// to do, and more and more seldom while it fails. It returns when ctx ends.
func (s *Sender) each(ctx context.Context, wake signal.Signal, what string, step func(context.Context) (more bool, err error)) {
	pause := newBackoff()
	for wait(ctx, wake, -1) {
		for ctx.Err() == nil {
			more, err := step(ctx)
			if !more {
				break
			}
			if err != nil && ctx.Err() == nil {
				s.c.Log.Error("cannot "+what, "err", err)
			}
			pause.Wait(ctx, err)
		}
	}
}

// newBackoff spaces the steps of a loop whose database fails.
func newBackoff() *backoff.Backoff { return backoff.New(50*time.Millisecond, 5*time.Second) }

// wait returns true after a signal, or after d, which never passes when negative. It
// returns false when ctx ends first.
func wait(ctx context.Context, c signal.Signal, d time.Duration) bool {
	var passed <-chan time.Time
	if d >= 0 {
		passed = time.After(d)
	}
	select {
	case <-ctx.Done():
		return false
	case <-c:
	case <-passed:
	}
	return true
}
