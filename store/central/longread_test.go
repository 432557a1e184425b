package central

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
)

// readForLong keeps a snapshot of a PostgreSQL database open, as pg_dump does, until
// the function that it returns is called or the test ends.
func readForLong(t *testing.T, url string) (end func()) {
	t.Helper()
	pool := must(sql.Open("pgx", url))(t)
	t.Cleanup(func() { _ = pool.Close() })
	tx := must(pool.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}))(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	var n int
	noError(t, tx.QueryRow(`SELECT count(*) FROM accounts`).Scan(&n))
	return func() { noError(t, tx.Rollback()) }
}

// entriesRead returns how many entries of the indexes of a table were read so far, dead ones
// too. It asks the connection that was used last, which a pool gives again.
func entriesRead(t *testing.T, central *DB, table string) (n int64) {
	t.Helper()
	ctx := context.Background()
	noError(t, central.db.QueryRow(ctx, `SELECT 1 FROM (SELECT pg_stat_force_next_flush()) x`).Scan(&n))
	noError(t, central.db.QueryRow(ctx, `SELECT sum(idx_tup_read) FROM pg_stat_user_indexes
		WHERE relname = ? AND schemaname = current_schema()`, table).Scan(&n))
	return n
}

// TestLongReadLeavesClaimsCheap takes some thousand deliveries through the queue while
// somebody reads the database, so that none of their dead entries goes. To see that
// nothing waits any more costs as little as before.
func TestLongReadLeavesClaimsCheap(t *testing.T) {
	p := place{"postgres", centraltest.Postgres(t)}
	q := newQueued(t, p, 20)
	work := func(events int) {
		for range events {
			q.fire(t)
		}
		for claims := q.claim(t, 500); len(claims) > 0; claims = q.claim(t, 500) {
			q.record(t, store.StateDelivered, 0, claims...)
		}
	}
	look := func() int64 {
		before := entriesRead(t, q.DB, "deliveries")
		if due := q.due(t); len(due) != 0 {
			t.Errorf("%v are due, though nothing waits", due)
		}
		claims, _, err := q.ClaimDeliveries(context.Background(), deliveries.ClaimRequest{
			Owner: "w", Lease: time.Minute, Subscriptions: q.subs, Each: 16,
		})
		if noError(t, err); len(claims) != 0 {
			t.Errorf("claims %v, though nothing waits", claims)
		}
		return entriesRead(t, q.DB, "deliveries") - before
	}
	readForLong(t, p.url)
	first := entriesRead(t, q.DB, "deliveries")
	work(20)
	if read := entriesRead(t, q.DB, "deliveries") - first; read < 400 {
		t.Fatalf("%d entries were read for 400 deliveries: they are not counted", read)
	}
	look()
	few := look()
	work(200)
	// What the planner learns now, that hardly anything waits, must not mislead it.
	noError(t, q.db.WriteAlone(context.Background(), func(ctx context.Context, x *db.Tx) error {
		_, err := x.Exec(ctx, `ANALYZE deliveries`)
		return err
	}))
	look() // of what was written since the last claim
	if many := look(); many > few+20 {
		t.Errorf("%d entries are read to see that nothing waits, after 4000 deliveries; %d after 400", many, few)
	}
}

// movingClock is a clock that many goroutines read while a test moves it.
type movingClock struct{ us atomic.Int64 }

func (c *movingClock) now() time.Time { return time.UnixMicro(c.us.Load()).UTC() }

// TestQueueForgetsNothing has two processes write, claim, record, retry and end leases
// at random while somebody reads the database. Whatever is due is claimed by either of
// them in the end: none has lost sight of a delivery.
func TestQueueForgetsNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p := place{"postgres", centraltest.Postgres(t)}
	clock := &movingClock{}
	clock.us.Store(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	r := &randomQueue{clock: clock, told: map[*DB]*dueSet{}}
	for range 2 {
		db := openWith(t, p, Config{Now: clock.now})
		r.dbs, r.told[db] = append(r.dbs, db), &dueSet{}
	}
	for range 3 {
		account := newAccount(t, r.dbs[0], store.ModeLive).ID
		r.accounts = append(r.accounts, account)
		for range 4 {
			s := subscriptionFor(account, store.EventSentinelFired)
			noError(t, r.dbs[0].AddSubscription(context.Background(), s))
			r.subs = append(r.subs, s.ID)
		}
	}
	readForLong(t, p.url)
	for round := range uint64(4) {
		var workers sync.WaitGroup
		for w := range uint64(6) {
			workers.Go(func() {
				random := rand.New(rand.NewPCG(seed, round<<8|w))
				for range 60 {
					r.step(t, random)
				}
			})
		}
		workers.Wait()
		clock.us.Add(time.Hour.Microseconds()) // leases have ended, and all is due
		for _, claimant := range r.dbs {
			r.drain(t, claimant)
			var left int
			noError(t, claimant.db.QueryRow(context.Background(),
				`SELECT count(*) FROM deliveries WHERE state = 'pending' AND due_at <= ?`, store.Micros(clock.now())).Scan(&left))
			if left > 0 {
				t.Fatalf("%d deliveries that are due were not claimed in round %d", left, round)
			}
			clock.us.Add(time.Hour.Microseconds())
		}
	}
}

// randomQueue holds the stores and the state of TestQueueForgetsNothing.
type randomQueue struct {
	clock    *movingClock
	dbs      []*DB
	told     map[*DB]*dueSet
	accounts []string
	subs     []string

	mu   sync.Mutex
	seen []string // deliveries
}

// step does one thing of those that a process does.
func (r *randomQueue) step(t *testing.T, random *rand.Rand) {
	ctx := context.Background()
	central := r.dbs[random.IntN(len(r.dbs))]
	sub := r.subs[random.IntN(len(r.subs))]
	var err error
	switch random.IntN(12) {
	case 0, 1, 2:
		_, _, err = central.AddFiring(ctx, store.Firing{AccountID: r.accounts[random.IntN(len(r.accounts))], Name: "x"})
	case 3, 4, 5, 6, 7:
		err = r.claim(ctx, central, random)
	case 8:
		if id := r.any(random); id != "" {
			_, err = central.RetryDelivery(ctx, id)
		}
	case 9:
		_, _, err = central.RecoverDeliveries(ctx, sub, store.Span{}, "", time.Hour)
	case 10:
		_, err = central.EndLeases(ctx, "w")
	case 11:
		r.clock.us.Add(random.Int64N(20_000_000))
	}
	// Where processes wait for each other in a circle, PostgreSQL ends one's write.
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
}

// any returns a delivery that was claimed once.
func (r *randomQueue) any(random *rand.Rand) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		return ""
	}
	return r.seen[random.IntN(len(r.seen))]
}

// claim claims from what a process knows to be due, and records the outcomes of some.
func (r *randomQueue) claim(ctx context.Context, central *DB, random *rand.Rand) error {
	request := deliveries.ClaimRequest{Owner: "w", Lease: time.Duration(1+random.IntN(30)) * time.Second, Each: 1 + random.IntN(5)}
	var err error
	if request.Subscriptions, err = r.told[central].take(ctx, central); err != nil {
		return err
	}
	claims, more, err := central.ClaimDeliveries(ctx, request)
	if err != nil {
		r.told[central].put(request.Subscriptions) // as a sender, who asks for them again
		return err
	}
	r.told[central].put(more)
	var outcomes []deliveries.Outcome
	for _, c := range claims {
		r.mu.Lock()
		r.seen = append(r.seen, c.ID)
		r.mu.Unlock()
		o := deliveries.Outcome{State: store.StateDelivered, Attempt: store.Attempt{
			ID: c.ID, DeliveryID: c.ID, Number: c.Attempts + 1, StartedAt: r.clock.now(),
		}}
		switch random.IntN(4) {
		case 0:
			continue // its lease ends
		case 1:
			o.State = store.StateDead
		case 2:
			o.State, o.NextAt = store.StatePending, r.clock.now().Add(time.Duration(random.IntN(10_000))*time.Millisecond)
		}
		outcomes = append(outcomes, o)
	}
	return central.RecordOutcomes(ctx, outcomes)
}

// drain claims and delivers, as one process that knows of nothing but what it was told,
// until nothing is due.
func (r *randomQueue) drain(t *testing.T, central *DB) {
	t.Helper()
	ctx := context.Background()
	for {
		due := must(r.told[central].take(ctx, central))(t)
		if len(due) == 0 {
			return
		}
		claims, more, err := central.ClaimDeliveries(ctx, deliveries.ClaimRequest{Owner: "w", Lease: time.Minute, Each: 3, Subscriptions: due})
		noError(t, err)
		r.told[central].put(more)
		noError(t, central.RecordOutcomes(ctx, benchOutcomes(claims)))
	}
}
