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
	"partneredge/store/central"
)

// Sender delivers what waits in the database. It is safe for many goroutines.
type Sender struct {
	c         Config
	transport http.RoundTripper
	ctx       context.Context // of tries; ends when Stop's own does
	abandon   context.CancelFunc
	tries     sync.WaitGroup

	loops     sync.WaitGroup // all but the writers
	stopLoops context.CancelFunc
	writers   sync.WaitGroup
	stopWrite chan struct{}
	stopOnce  sync.Once
	stopErr   error

	// Each says that there is something for a loop to do.
	claimNow, scanNow, checkNow, alarmNow, writeNow chan struct{}

	mu         sync.Mutex
	stopping   bool
	queues     map[string]*queue
	held       map[string]struct{} // deliveries in memory, until their outcomes are written
	heldBytes  int
	claiming   bool     // a claim may have read deliveries as they were before
	parted     []string // their outcomes were written: to leave held after that
	fast, slow lane
	idle       []worker
	unproven   int          // of them, those of endpoints that are not proven
	watched    fifo[*try]   // of the fast lane, by start
	watching   bool         // the alarm loop knows that there are some
	wanting    fifo[*queue] // to be filled
	checks     []*queue     // whose standing is to be read
	alarms     alarms
	outcomes   []conclusion
	tails      map[chan store.Tried]bool
	sweptAt    time.Time
	stats      Stats
}

// Stats is how a Sender is doing.
type Stats struct {
	// Since the start: tries that were acknowledged, tries that were not,
	// deliveries whose tries were used up, and those cancelled on the way.
	Delivered, Failed, Dead, Cancelled int64
	// Now: deliveries in memory, tries under way for endpoints that answer and
	// for those that fail or are slow, and queues known.
	Held, Fast, Slow, Queues int
}

// Start returns at once; a Sender works until Stop. ctx bounds the start alone.
func Start(ctx context.Context, c Config) (*Sender, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	s := &Sender{
		c:         c,
		transport: c.transport,
		stopWrite: make(chan struct{}),
		claimNow:  make(chan struct{}, 1),
		scanNow:   make(chan struct{}, 1),
		checkNow:  make(chan struct{}, 1),
		alarmNow:  make(chan struct{}, 1),
		writeNow:  make(chan struct{}, 1),
		queues:    make(map[string]*queue),
		held:      make(map[string]struct{}),
		tails:     make(map[chan store.Tried]bool),
		fast:      lane{budget: c.Fast},
		slow:      lane{budget: c.Slow},
	}
	if s.transport == nil {
		transport, err := newTransport(c.Guard, c.CAFile, c.Timeout, c.PerEndpoint)
		if err != nil {
			return nil, fmt.Errorf("start webhook sender: %w", err)
		}
		s.transport = transport
	}
	// What a killed process of this name had in hand.
	if _, err := c.Store.ReleaseDeliveries(ctx, c.Owner); err != nil {
		return nil, fmt.Errorf("start webhook sender: %w", err)
	}
	if err := c.Store.SetTaker(&central.Taker{Owner: c.Owner, Lease: c.Lease, Accept: s.accept, Take: s.take}); err != nil {
		return nil, fmt.Errorf("start webhook sender: %w", err)
	}
	s.ctx, s.abandon = context.WithCancel(context.Background())
	loops, stopLoops := context.WithCancel(context.Background())
	s.stopLoops = stopLoops
	for _, loop := range []func(context.Context){s.claimLoop, s.scanLoop, s.checkLoop, s.alarmLoop} {
		s.loops.Go(func() { loop(loops) })
	}
	for range c.writers {
		s.writers.Go(func() { s.writeLoop(s.ctx, s.stopWrite) })
	}
	return s, nil
}

// Wake says that something may be due that no Taker took: by this process or,
// where several share the database, by another.
func (s *Sender) Wake() { signal(s.scanNow) }

// Stats are of this moment.
func (s *Sender) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.stats
	now.Held, now.Fast, now.Slow, now.Queues = len(s.held), s.fast.inFlight, s.slow.inFlight, len(s.queues)
	return now
}

// Stop takes on nothing more, waits for the tries under way and writes their
// outcomes, as long as ctx lasts; then it gives back what it holds. Tries that
// are cut short by ctx are made again by whoever comes next. Later calls wait
// for the first and return what it did.
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
	s.mu.Unlock()
	err := s.c.Store.SetTaker(nil)
	s.stopLoops()
	s.loops.Wait()

	tried := make(chan struct{})
	go func() { s.tries.Wait(); close(tried) }()
	select {
	case <-tried:
	case <-ctx.Done():
		s.abandon()
		<-tried
	}
	close(s.stopWrite)
	written := make(chan struct{})
	go func() { s.writers.Wait(); close(written) }()
	select {
	case <-written:
	case <-ctx.Done():
		s.abandon()
		<-written
	}
	s.abandon()
	// Briefly even when ctx has ended: it spares the next process the wait.
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, released := s.c.Store.ReleaseDeliveries(release, s.c.Owner)
	if t, ok := s.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	if err := errors.Join(err, released); err != nil {
		return fmt.Errorf("stop webhook sender: %w", err)
	}
	return nil
}

// signal sets a flag that a loop waits for.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func wait(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// newBackoff spaces the tries of a loop whose database fails.
func newBackoff() *backoff.Backoff { return backoff.New(50*time.Millisecond, 5*time.Second) }
