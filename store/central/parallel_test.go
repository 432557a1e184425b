package central

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// Each of these runs through two DBs over one database, as two processes would.

// TestParallelFirings writes firings of the same time from many goroutines,
// while a reader follows the changes.
func TestParallelFirings(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		dbs := []*DB{open(t, p), open(t, p)}
		accounts := []string{newAccount(t, dbs[0], store.ModeLive).ID, newAccount(t, dbs[0], store.ModeSetup).ID}
		at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
		const callers, firings = 16, 20

		written := make(chan struct{})
		var reader sync.WaitGroup
		reader.Go(func() {
			var cursor int64
			for last := false; ; {
				log, err := dbs[1].ChangesSince(ctx, Position{Seq: cursor}, 7)
				if err != nil || log.Reset {
					t.Errorf("changes since %d: reset %v, %v", cursor, log.Reset, err)
					return
				}
				for _, c := range log.Changes {
					if c.Seq != cursor+1 {
						t.Errorf("change %d follows %d", c.Seq, cursor)
						return
					}
					cursor = c.Seq
				}
				if last && cursor == log.Latest {
					return
				}
				select {
				case <-written:
					last = true
				default:
				}
			}
		})
		var n atomic.Int64
		inParallel(callers, func() {
			for range firings {
				i := n.Add(1)
				f := store.Firing{AccountID: accounts[i%2], Name: "same time", TriggeredAt: at}
				if _, _, err := dbs[i/2%2].AddFiring(ctx, f); err != nil {
					t.Error(err)
				}
			}
		})
		close(written)
		reader.Wait()
		for _, account := range accounts {
			var times []time.Time
			before := time.Time{}
			for more := true; more; before = times[len(times)-1] {
				view := must(dbs[0].Firings(ctx, account, before, 100))(t)
				more = view.More
				for _, f := range view.Items {
					times = append(times, f.TriggeredAt)
				}
			}
			slices.Reverse(times)
			for i, got := range times {
				if !got.Equal(at.Add(time.Duration(i) * time.Microsecond)) {
					t.Fatalf("firing %d is at %v", i, got)
				}
			}
			if len(times) != callers*firings/2 {
				t.Errorf("%d firings, want %d", len(times), callers*firings/2)
			}
		}
	})
}

func TestParallelSubscriptions(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		dbs := []*DB{open(t, p), open(t, p)}
		a := newAccount(t, dbs[0], store.ModeLive)
		var n, made, refused atomic.Int64
		inParallel(10, func() {
			for range 13 {
				err := dbs[n.Add(1)%2].AddSubscription(context.Background(), subscriptionFor(a.ID, store.EventDealChanged))
				switch {
				case err == nil:
					made.Add(1)
				case errors.Is(err, store.ErrLimit):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
		if made.Load() != 100 || refused.Load() != 30 {
			t.Errorf("made %d, refused %d; want 100, 30", made.Load(), refused.Load())
		}
	})
}

func TestParallelRotation(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		dbs := []*DB{open(t, p), open(t, p)}
		a := newAccount(t, dbs[0], store.ModeLive)
		for range 5 {
			k := must(dbs[0].CreateKey(ctx, keyFor(a.ID)))(t)
			var n, rotated, revoked atomic.Int64
			inParallel(8, func() {
				i := n.Add(1)
				db := dbs[i%2]
				if i%4 == 0 {
					_, changed, err := db.RevokeKey(ctx, k.ID)
					if err != nil {
						t.Error(err)
					}
					if changed {
						revoked.Add(1)
					}
					return
				}
				_, _, err := db.RotateKey(ctx, k.ID, keyHash(), time.Now().Add(time.Hour))
				switch {
				case err == nil:
					rotated.Add(1)
				case !errors.Is(err, store.ErrConflict):
					t.Error(err)
				}
			})
			end := must(dbs[0].Key(ctx, k.ID))(t)
			if rotated.Load() > 1 || revoked.Load() != 1 || end.RevokedAt.IsZero() || (end.SuccessorID != "") != (rotated.Load() == 1) {
				t.Errorf("rotated %d times, revoked %d times: %+v", rotated.Load(), revoked.Load(), end)
			}
		}
	})
}

// TestParallelClaims has workers of two processes share a queue while it fills
// and while subscriptions are revoked. Nothing is tried twice, nothing is left.
func TestParallelClaims(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		dbs := []*DB{open(t, p)}
		dbs = append(dbs, dbs[0]) // of SQLite, which has one process
		if p.kind == "postgres" {
			dbs[1] = open(t, p)
		}
		const accounts, subscriptions, events = 3, 8, 40
		type subscription struct{ account, id string }
		var ids []string
		var subs []subscription
		for range accounts {
			a := newAccount(t, dbs[0], store.ModeLive)
			ids = append(ids, a.ID)
			for range subscriptions {
				s := subscriptionFor(a.ID, store.EventSentinelFired, store.EventClientContacted)
				noError(t, dbs[0].AddSubscription(ctx, s))
				subs = append(subs, subscription{a.ID, s.ID})
			}
		}
		senders := []*claimant{{DB: dbs[0], held: make(map[string]bool)}}
		if p.kind == "postgres" {
			senders = append(senders, &claimant{DB: dbs[1]})
		}
		filled := make(chan struct{})
		var workers sync.WaitGroup
		for w := range 4 {
			workers.Go(func() {
				sender := senders[w%len(senders)]
				for last := false; ; {
					claims, err := sender.claim(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if err := sender.RecordOutcomes(ctx, benchOutcomes(claims)); err != nil {
						t.Error(err)
						return
					}
					if last && len(claims) == 0 {
						return
					}
					select {
					case <-filled:
						last = true
					default:
					}
				}
			})
		}
		var n atomic.Int64
		inParallel(6, func() {
			for i := n.Add(1); i <= events; i = n.Add(1) {
				_, _, err := dbs[i%2].AddFiring(ctx, store.Firing{AccountID: ids[rand.IntN(accounts)], Name: "x"})
				if err != nil {
					t.Error(err)
				}
				if i%10 == 0 {
					s := subs[rand.IntN(len(subs))]
					if _, err := dbs[i/10%2].RevokeSubscription(ctx, s.account, s.id); err != nil {
						t.Error(err)
					}
				}
			}
		})
		close(filled)
		workers.Wait()
		for _, s := range subs {
			items, _, err := dbs[0].Deliveries(ctx, deliveries.Filter{SubscriptionID: s.id}, store.Page{Limit: 200})
			noError(t, err)
			for _, d := range items {
				attempts := must(dbs[0].Attempts(ctx, d.ID))(t)
				if d.State == store.StatePending || d.State == store.StateDelivered && len(attempts) != 1 {
					t.Errorf("%d attempts: %+v", len(attempts), d)
				}
			}
		}
	})
}

// claimant claims from all that is due, as the sender of a process does.
type claimant struct {
	*DB
	told dueSet
	mu   sync.Mutex // SQLite: one claim at a time, so that each knows what is held
	held map[string]bool
}

// claim returns no claims when nothing is due that nobody else is just claiming.
func (c *claimant) claim(ctx context.Context) ([]deliveries.Claim, error) {
	for {
		due, err := c.told.take(ctx, c.DB)
		if err != nil || len(due) == 0 {
			return nil, err
		}
		claims, err := c.claimFrom(ctx, due)
		if err != nil || len(claims) > 0 {
			return claims, err
		}
	}
}

func (c *claimant) claimFrom(ctx context.Context, due []string) ([]deliveries.Claim, error) {
	r := deliveries.ClaimRequest{Owner: "w", Lease: time.Hour, Each: 25, Subscriptions: due}
	if c.Kind() == "sqlite" {
		c.mu.Lock()
		defer c.mu.Unlock()
		r.Holds, r.Held = func(id string) bool { return c.held[id] }, heldOf(due, len(c.held))
	}
	claims, more, err := c.ClaimDeliveries(ctx, r)
	if err != nil {
		more = due
	}
	c.told.put(more)
	if c.Kind() == "sqlite" {
		for _, claim := range claims {
			c.held[claim.ID] = true
		}
	}
	return claims, err
}

// recorded forgets claims whose outcomes are recorded. On SQLite no claim may be
// under way, since it may read from before.
func (c *claimant) recorded(claims []deliveries.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, claim := range claims {
		delete(c.held, claim.ID)
	}
}

// TestSharedTransaction has writes that fail half done share transactions with
// others, which must not notice, and of which nothing may be left.
func TestSharedTransaction(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		noError(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventInsightCreated)))
		taken := store.NewID("ins", time.Now())
		_, _, err := db.AddCoachingRun(ctx, a.ID, []store.Insight{{ID: taken, Headline: "first"}})
		noError(t, err)
		var n, good atomic.Int64
		var events sync.Map
		inParallel(12, func() {
			for range 10 {
				run := []store.Insight{{Headline: "good"}, {Headline: "good"}}
				if n.Add(1)%3 == 0 {
					run = []store.Insight{{Headline: "half done"}, {ID: taken, Headline: "again"}}
				}
				_, e, err := db.AddCoachingRun(ctx, a.ID, run)
				switch {
				case run[1].ID == taken && !errors.Is(err, store.ErrConflict):
					t.Errorf("a taken id: %v", err)
				case run[1].ID == "" && err != nil:
					t.Error(err)
				case err == nil:
					good.Add(1)
					events.Store(e.ID, true)
				}
			}
		})
		if good.Load() != 80 {
			t.Errorf("%d good runs, want 80", good.Load())
		}
		var rows, half, deliveries int
		noError(t, db.db.QueryRow(ctx, `SELECT count(*), coalesce(sum(CASE WHEN headline = 'half done' THEN 1 ELSE 0 END), 0) FROM insights`).Scan(&rows, &half))
		noError(t, db.db.QueryRow(ctx, `SELECT count(*) FROM deliveries d JOIN events e ON e.id = d.event_id`).Scan(&deliveries))
		if rows != 1+2*80 || half != 0 || deliveries != 81 {
			t.Errorf("%d insights, %d half done, %d deliveries; want 161, 0, 81", rows, half, deliveries)
		}
		events.Range(func(id, _ any) bool {
			must(db.Event(ctx, id.(string)))(t)
			return true
		})
	})
}

func TestCancelledCaller(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID})
		wantErr(t, err, context.Canceled)
		_, err = db.Account(ctx, a.ID)
		wantErr(t, err, context.Canceled)
		_, _, err = db.AddFiring(context.Background(), store.Firing{AccountID: a.ID})
		noError(t, err)
	})
}

// TestClose ends a DB in the midst of writes: what was answered is there.
func TestClose(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		var kept sync.Map
		var answered atomic.Int64
		enough := make(chan struct{})
		var once, closing sync.Once
		closer := func() {
			closing.Do(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		var all sync.WaitGroup
		all.Go(func() { <-enough; closer() })
		for range 8 {
			all.Go(func() {
				for {
					f, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID})
					if err != nil {
						wantErr(t, err, store.ErrUnavailable)
						return
					}
					kept.Store(f.ID, true)
					if answered.Add(1) == 50 {
						once.Do(func() { close(enough) })
					}
				}
			})
		}
		all.Wait()
		noError(t, db.Close()) // twice
		_, err := db.Account(ctx, a.ID)
		wantErr(t, err, store.ErrUnavailable)
		_, _, err = db.ClaimDeliveries(ctx, deliveries.ClaimRequest{Owner: "w", Subscriptions: []string{"whs_x"}, Each: 1, Lease: time.Second})
		wantErr(t, err, store.ErrUnavailable)
		mustHaveFirings(t, open(t, p), a.ID, &kept)
	})
}

func mustHaveFirings(t *testing.T, db *DB, account string, want *sync.Map) {
	t.Helper()
	have := map[string]bool{}
	rows, err := db.db.Query(context.Background(), `SELECT id FROM firings WHERE account_id = ?`, account)
	noError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		noError(t, rows.Scan(&id))
		have[id] = true
	}
	noError(t, rows.Err())
	want.Range(func(id, _ any) bool {
		if !have[id.(string)] {
			t.Errorf("lost %s", id)
		}
		return true
	})
}

func TestUnreachable(t *testing.T) {
	for name, address := range map[string]string{
		"postgres": "postgres://nobody:s3cret@127.0.0.1:1/none?sslmode=disable&connect_timeout=2",
		"sqlite":   t.TempDir() + "/no/such/folder/x.db",
	} {
		_, err := Open(context.Background(), Config{URL: address})
		if wantErr(t, err, store.ErrUnavailable); err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the password", name)
		}
	}
	for _, address := range []string{"mysql://x", "postgres://u:s3cret@[::1/x"} {
		_, err := Open(context.Background(), Config{URL: address})
		if wantErr(t, err, store.ErrInvalid); err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the password", address)
		}
	}
}
