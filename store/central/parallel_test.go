package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/fleet"
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
		r.Holds, r.Held = func(id string) bool { return c.held[id] }, len(c.held)
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

// TestParallelNodes notes when nodes spoke, and what they are to run, from two origins
// that list the same nodes in opposite orders: no transaction has to begin again, since
// none waits for one that waits for it.
func TestParallelNodes(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		dbs := []*DB{open(t, p), open(t, p)}
		var ids []string
		for range 100 {
			ids = append(ids, must(dbs[0].AddNode(ctx, store.Node{Name: "n", Region: "r", PublicKey: store.NewID("pub", time.Now())}))(t).ID)
		}
		begin := dbs[0].Now()
		const times = 50
		var origins sync.WaitGroup
		var runs, step atomic.Int64
		for i, d := range dbs {
			mine := slices.Clone(ids)
			if i == 1 {
				slices.Reverse(mine)
			}
			origins.Go(func() {
				for range times {
					at := begin.Add(time.Duration(step.Add(1)) * time.Second)
					var seen []fleet.NodeSeen
					digests := make(map[string]string)
					for _, id := range mine {
						seen = append(seen, fleet.NodeSeen{ID: id, Version: "1", At: at})
						digests[id] = at.String()
					}
					alone := func(fn db.Func) {
						if err := d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
							runs.Add(1)
							return fn(ctx, t)
						}); err != nil {
							t.Error(err)
						}
					}
					alone(func(ctx context.Context, t *db.Tx) error {
						_, err := fleet.UpdateSeen(ctx, t, seen)
						return err
					})
					alone(func(ctx context.Context, t *db.Tx) error { return fleet.PutReleases(ctx, t, digests) })
				}
			})
		}
		origins.Wait()
		if n := runs.Load(); n != 2*times*int64(len(dbs)) {
			t.Errorf("%d transactions ran %d times", 2*times*len(dbs), n)
		}
		last := begin.Add(time.Duration(step.Add(1)) * time.Second)
		for _, id := range ids { // which the last round may have found busy
			must(dbs[0].SeenNodes(ctx, []fleet.NodeSeen{{ID: id, Version: "1", At: last}}))(t)
			if n := must(dbs[0].Node(ctx, id))(t); !n.LastSeenAt.Equal(last) {
				t.Fatalf("%s was seen last at %s, want %s", id, n.LastSeenAt, last)
			}
		}
		// Another origin that heard the same heartbeat has nothing to write.
		if busy := must(dbs[1].SeenNodes(ctx, []fleet.NodeSeen{
			{ID: ids[0], Version: "1", At: last.Add(time.Second), Apart: time.Minute},
			{ID: ids[1], Version: "2", At: last.Add(time.Second), Apart: time.Minute},
			{ID: ids[2], Version: "1", At: last.Add(time.Minute), Apart: time.Minute},
		}))(t); busy {
			t.Error("busy, where nobody writes")
		}
		for id, want := range map[string]time.Duration{ids[0]: 0, ids[1]: time.Second, ids[2]: time.Minute} {
			if n := must(dbs[0].Node(ctx, id))(t); !n.LastSeenAt.Equal(last.Add(want)) {
				t.Errorf("%s was seen at %s, want %s later than %s", id, n.LastSeenAt, want, last)
			}
		}
	})
}

// TestSeenBesideWrites notes when nodes spoke while others write the same nodes: it waits
// for none of them, and the times and what they write are there in the end.
func TestSeenBesideWrites(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		d, other := open(t, p), open(t, p)
		var seen []fleet.NodeSeen
		at := d.Now()
		for i := range 20 {
			n := must(d.AddNode(ctx, store.Node{Name: "n", Region: "r", PublicKey: fmt.Sprint("pub", i)}))(t)
			seen = append(seen, fleet.NodeSeen{ID: n.ID, Version: "1", At: at})
		}
		note := func() {
			if busy := must(d.SeenNodes(ctx, seen))(t); busy {
				t.Error("busy, where nobody else notes any")
			}
		}
		if !d.db.Postgres() { // where one writes at a time
			note()
		}
		noError(t, other.db.WriteAlone(ctx, func(ctx context.Context, tx *db.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE nodes SET wire_version = 8`); err != nil || !d.db.Postgres() {
				return err
			}
			note()
			return nil
		}))
		for _, n := range seen {
			if n := must(d.Node(ctx, n.ID))(t); !n.LastSeenAt.Equal(at) || n.Version != "1" || n.WireVersion != 8 {
				t.Fatalf("%s was seen at %s in %q and wire version %d, want %s in 1 and 8", n.ID, n.LastSeenAt, n.Version, n.WireVersion, at)
			}
		}
	})
}

// TestSeenByOneAtATime has an origin stop in the midst of noting when a node spoke: others
// wait for nothing, and note theirs later. PostgreSQL does not let it stay there for long.
func TestSeenByOneAtATime(t *testing.T) {
	p := place{"postgres", centraltest.Postgres(t)}
	d, other := open(t, p), open(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id := must(d.AddNode(ctx, store.Node{Name: "n", Region: "r", PublicKey: "pub"}))(t).ID
	at := d.Now()
	seen := []fleet.NodeSeen{{ID: id, Version: "1", At: at}, {ID: "node_nobody", At: at}}
	noError(t, other.db.WriteAlone(ctx, func(ctx context.Context, tx *db.Tx) error {
		if busy := must(fleet.UpdateSeen(ctx, tx, []fleet.NodeSeen{{ID: id, Version: "0", At: at.Add(-time.Minute)}}))(t); busy {
			t.Error("busy, where nobody else notes any")
		}
		if busy := must(d.SeenNodes(ctx, seen))(t); !busy {
			t.Error("two note at once")
		}
		var idle string
		if err := tx.Get(ctx, `SELECT current_setting('idle_in_transaction_session_timeout')`, nil, &idle); err != nil || idle != "5s" {
			t.Errorf("the transaction may do nothing for %q: %v", idle, err)
		}
		return nil
	}))
	if n := must(d.Node(ctx, id))(t); !n.LastSeenAt.Equal(at.Add(-time.Minute)) {
		t.Errorf("the node was seen at %s, want %s, which the other noted", n.LastSeenAt, at.Add(-time.Minute))
	}
	if busy := must(d.SeenNodes(ctx, seen))(t); busy {
		t.Error("busy, where nobody notes any more")
	}
	if n := must(d.Node(ctx, id))(t); !n.LastSeenAt.Equal(at) {
		t.Errorf("the node was seen at %s, want %s", n.LastSeenAt, at)
	}
}

// TestSeenOfEarlierProgram takes over when nodes were seen from the program before the
// table of that, and notes those that such a program enrols while it still runs.
func TestSeenOfEarlierProgram(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		noError(t, must(db.Open(ctx, db.Config{URL: p.url, Migrations: migrationsBefore(t, "0023")}))(t).Close())
		driver, source := "pgx", p.url
		if p.kind == "sqlite" {
			driver, source = "sqlite", (&url.URL{Scheme: "file", Path: p.url}).String()
		}
		earlier := must(sql.Open(driver, source))(t)
		defer func() { noError(t, earlier.Close()) }()
		enrol := func(id string, seen int64) {
			_, err := earlier.ExecContext(ctx, `INSERT INTO nodes (id, name, region, public_key, created_at, last_seen_at, version)
				VALUES ($1, '', '', $1, 1, $2, '1')`, id, seen)
			noError(t, err)
		}
		at := time.UnixMicro(1_700_000_000_000_000).UTC()
		enrol("node_before", at.UnixMicro())
		d := open(t, p)
		enrol("node_beside", 0)
		if n := must(d.Node(ctx, "node_before"))(t); !n.LastSeenAt.Equal(at) || n.Version != "1" {
			t.Errorf("seen at %s in %q, want %s in 1", n.LastSeenAt, n.Version, at)
		}
		for _, later := range []time.Duration{time.Second, time.Minute} {
			var seen []fleet.NodeSeen
			for _, id := range []string{"node_before", "node_beside"} {
				seen = append(seen, fleet.NodeSeen{ID: id, Version: "2", At: at.Add(later)})
			}
			must(d.SeenNodes(ctx, seen))(t)
			nodes, _, err := d.Nodes(ctx, store.Page{})
			noError(t, err)
			for _, n := range nodes {
				if !n.LastSeenAt.Equal(at.Add(later)) || n.Version != "2" {
					t.Errorf("%s was seen at %s in %q, want %s in 2", n.ID, n.LastSeenAt, n.Version, at.Add(later))
				}
			}
		}
		later := at.Add(time.Hour)
		_, err := earlier.ExecContext(ctx, `UPDATE nodes SET last_seen_at = $1, version = '1' WHERE id = 'node_before'`, later.UnixMicro())
		noError(t, err)
		if n := must(d.Node(ctx, "node_before"))(t); !n.LastSeenAt.Equal(later) || n.Version != "1" {
			t.Errorf("the earlier program went on, and the node was seen at %s in %q, want %s in 1", n.LastSeenAt, n.Version, later)
		}
		if n := must(d.Node(ctx, "node_beside"))(t); n.Version != "2" {
			t.Errorf("a node that the earlier program never heard is of %q, want 2", n.Version)
		}
	})
}
