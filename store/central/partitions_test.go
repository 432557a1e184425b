package central

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
)

const day = 24 * time.Hour

// partitioned returns a queue on PostgreSQL whose clock is past the first partition.
func partitioned(t *testing.T, subscriptions int) *queued {
	q := newQueued(t, place{"postgres", centraltest.Postgres(t)}, subscriptions)
	q.clock.at = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	return q
}

// prune does what a round of retention does, and returns how many rows and partitions
// went.
func prune(t testing.TB, d *DB, before time.Time) (rows, partitions int) {
	t.Helper()
	ctx, cursor := context.Background(), deliveries.PruneCursor{}
	for n := 1; n > 0; rows += n {
		n = must(d.PruneDeliveries(ctx, before, 7, &cursor))(t)
	}
	for must(d.DropPartition(ctx, before))(t) {
		partitions++
	}
	return rows, partitions
}

// counts returns how many deliveries, attempts and events there are, and how many
// deliveries have no event or not all their attempts.
func counts(t *testing.T, d *DB) (deliveries, attempts, events, broken int) {
	t.Helper()
	noError(t, d.db.QueryRow(context.Background(), `SELECT (SELECT count(*) FROM deliveries), (SELECT count(*) FROM attempts),
		(SELECT count(*) FROM events), (SELECT count(*) FROM deliveries d WHERE
			NOT EXISTS (SELECT 1 FROM events WHERE id = d.event_id) OR
			attempts <> (SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id))`).Scan(&deliveries, &attempts, &events, &broken))
	return deliveries, attempts, events, broken
}

// TestErasedWithOrphans erases an account whose deliveries went by their age while their
// attempts stay in their partition: these go too, and no others.
func TestErasedWithOrphans(t *testing.T) {
	ctx := t.Context()
	q := partitioned(t, 1)
	noError(t, q.MakePartitions(ctx, day))
	q.fire(t)
	other := newAccount(t, q.DB, store.ModeLive)
	noError(t, q.AddSubscription(ctx, subscriptionFor(other.ID, store.EventSentinelFired)))
	_, _, err := q.AddFiring(ctx, store.Firing{AccountID: other.ID, Name: "n"}) // in the same millisecond
	noError(t, err)
	var waits deliveries.Claim
	for _, c := range q.claim(t, 1) {
		if c.SubscriptionID == q.subs[0] {
			q.record(t, store.StateDelivered, 0, c)
		} else {
			q.record(t, store.StatePending, 1000*day, c)
			waits = c
		}
	}
	q.clock.at = q.clock.at.Add(time.Hour)
	_ = must(q.PruneDeliveries(ctx, q.clock.at, 10, new(deliveries.PruneCursor)))(t)
	if kept, attempts, events, _ := counts(t, q.DB); kept != 1 || attempts != 2 || events != 2 {
		t.Fatalf("retention leaves %d deliveries, %d attempts, %d events; want 1, 2, 2", kept, attempts, events)
	}
	_ = must(q.EraseAccount(ctx, q.account))(t)
	if kept, attempts, events, _ := counts(t, q.DB); kept != 1 || attempts != 1 || events != 1 {
		t.Errorf("the erasure leaves %d deliveries, %d attempts, %d events; want 1 of each", kept, attempts, events)
	}
	if left := must(q.Attempts(ctx, waits.ID))(t); len(left) != 1 {
		t.Errorf("the other account's delivery has attempts %v", left)
	}
}

// TestPartitionsAreDropped lets the log grow for ten days and prunes it: days go as a
// whole, and what is left of one moves on and can still be read, tried and pruned.
func TestPartitionsAreDropped(t *testing.T) {
	ctx := context.Background()
	q := partitioned(t, 2)
	var waits, dead deliveries.Claim
	for i := range 40 {
		noError(t, q.MakePartitions(ctx, day))
		q.fire(t)
		claims := q.claim(t, 10)
		switch i {
		case 2: // one waits for good
			q.record(t, store.StatePending, 1000*day, claims[0])
			waits, claims = claims[0], claims[1:]
		case 3: // one dies, and is queued again much later
			q.record(t, store.StateDead, 0, claims[0])
			dead, claims = claims[0], claims[1:]
		}
		q.record(t, store.StateDelivered, 0, claims...)
		q.clock.at = q.clock.at.Add(6 * time.Hour)
	}
	if _, partitions := prune(t, q.DB, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)); partitions != 1 {
		t.Errorf("%d partitions are dropped that ended before the first event, want the first alone", partitions)
	}
	_ = must(q.RetryDelivery(ctx, dead.ID))(t)
	cut := q.clock.at.Add(-5*day - time.Hour)
	_, partitions := prune(t, q.DB, cut)
	kept, attempts, events, broken := counts(t, q.DB)
	if partitions != 4 || kept != 2+2*20 || broken != 0 || events != 2+24 || attempts != 2+2*24 {
		t.Errorf("%d partitions went; %d deliveries, %d attempts, %d events stay; %d of them broken", partitions, kept, attempts, events, broken)
	}
	if a := must(q.Attempts(ctx, waits.ID))(t); len(a) != 1 {
		t.Errorf("attempts of the one that waits: %v", a)
	}
	q.clock.at = q.clock.at.Add(1000 * day)
	claims := q.claim(t, 10)
	if i := slices.IndexFunc(claims, func(c deliveries.Claim) bool { return c.ID == waits.ID }); i < 0 || len(claims[i].Body) == 0 {
		t.Fatalf("the one that waited is not claimed with its event: %+v", claims)
	}
	q.record(t, store.StateDelivered, 0, claims...)
	q.clock.at = q.clock.at.Add(day)
	prune(t, q.DB, q.clock.at)
	if kept, attempts, events, _ := counts(t, q.DB); kept+attempts+events != 0 {
		t.Errorf("once all is old, %d deliveries, %d attempts and %d events are left", kept, attempts, events)
	}
}

// TestPartitionOfManyWaiting: of up to 1000 deliveries the rows move. Of more the partition
// stays, since all who use the log would wait while so
// many rows move.
func TestPartitionOfManyWaiting(t *testing.T) {
	ctx := context.Background()
	for _, test := range []struct{ subscriptions, events, moved int }{{25, 40, 40}, {77, 13, 0}} {
		q := partitioned(t, test.subscriptions)
		noError(t, q.MakePartitions(ctx, day))
		for range test.events {
			q.fire(t)
		}
		q.clock.at = q.clock.at.Add(10 * day)
		prune(t, q.DB, q.clock.at)
		var moved int
		noError(t, q.db.QueryRow(ctx, `SELECT count(*) FROM events_rest`).Scan(&moved))
		waiting := test.subscriptions * test.events
		if kept, _, events, broken := counts(t, q.DB); kept != waiting || events != test.events || moved != test.moved || broken != 0 {
			t.Errorf("of %d, %d deliveries stay of %d events, of which %d moved, %d broken", waiting, kept, events, moved, broken)
		}
	}
}

// TestNoPartition writes while nobody makes partitions. What came in is pruned all the
// same, and partitions that are made later begin after it.
func TestNoPartition(t *testing.T) {
	ctx := context.Background()
	q := partitioned(t, 1)
	q.fire(t)
	q.record(t, store.StateDelivered, 0, q.claim(t, 1)...)
	noError(t, q.MakePartitions(ctx, day))
	q.fire(t) // of the same day
	q.record(t, store.StateDelivered, 0, q.claim(t, 1)...)
	q.clock.at = q.clock.at.Add(day)
	q.fire(t)
	q.record(t, store.StateDelivered, 0, q.claim(t, 1)...)
	var rest int
	noError(t, q.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM events_rest) + (SELECT count(*) FROM attempts_rest)`).Scan(&rest))
	if rest != 4 {
		t.Errorf("%d rows are in the default partitions, want those of the first day", rest)
	}
	q.clock.at = q.clock.at.Add(10 * day)
	prune(t, q.DB, q.clock.at)
	if kept, attempts, events, _ := counts(t, q.DB); kept+attempts+events != 0 {
		t.Errorf("%d deliveries, %d attempts and %d events are left", kept, attempts, events)
	}
}

// TestPartitionsAfterAWrongClock writes for a moment by a clock that is ten days ahead. Days
// get their partitions before that time comes, and after it.
func TestPartitionsAfterAWrongClock(t *testing.T) {
	ctx := context.Background()
	q := partitioned(t, 1)
	noError(t, q.MakePartitions(ctx, day))
	rest := func() (n int) {
		noError(t, q.db.QueryRow(ctx, `SELECT count(*) FROM events_rest`).Scan(&n))
		return n
	}
	right := q.clock.at
	q.clock.at = right.Add(10*day + time.Hour)
	q.fire(t)
	q.record(t, store.StateDelivered, 0, q.claim(t, 1)...)
	for i := range 20 {
		q.clock.at = right.Add(time.Duration(i) * day)
		noError(t, q.MakePartitions(ctx, day))
		q.fire(t)
		q.clock.at = q.clock.at.Add(23 * time.Hour)
		q.fire(t)
		if i < 7 && rest() != 1 {
			t.Fatalf("day %d: %d events are in the default partition, want that of the wrong clock", i, rest())
		}
	}
	if n := rest(); n > 1+2*4 {
		t.Errorf("%d events are in the default partition, want those of a few days at most", n)
	}
	q.record(t, store.StateDelivered, 0, q.claim(t, 100)...)
	q.clock.at = right.Add(40 * day)
	prune(t, q.DB, q.clock.at)
	if kept, attempts, events, _ := counts(t, q.DB); kept+attempts+events != 0 {
		t.Errorf("%d deliveries, %d attempts and %d events are left", kept, attempts, events)
	}
}

// TestPartitionsOfManyProcesses has processes write, claim, make and drop partitions at
// once while weeks go by. No write fails, and no delivery that is left lacks anything.
func TestPartitionsOfManyProcesses(t *testing.T) {
	ctx := context.Background()
	at := place{"postgres", centraltest.Postgres(t)}
	var now atomic.Int64
	now.Store(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	clock := func() time.Time { return time.UnixMicro(now.Add(1000)) }
	d := []*DB{openWith(t, at, Config{Now: clock}), openWith(t, at, Config{Now: clock})}
	accounts := []string{newAccount(t, d[0], store.ModeLive).ID, newAccount(t, d[0], store.ModeLive).ID}
	for _, a := range accounts {
		for range 3 {
			noError(t, d[0].AddSubscription(ctx, subscriptionFor(a, store.EventSentinelFired)))
		}
	}
	noError(t, d[0].MakePartitions(ctx, day))
	stop := make(chan struct{})
	var workers sync.WaitGroup
	loop := func(what string, fn func() error) {
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := fn(); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	var dropped atomic.Int64
	for i, d := range d {
		sender := &claimant{DB: d, held: make(map[string]bool)}
		loop("fire", func() error {
			_, _, err := d.AddFiring(ctx, store.Firing{AccountID: accounts[i], Name: "n"})
			return err
		})
		loop("send", func() error {
			claims, err := sender.claim(ctx)
			if err != nil {
				return err
			}
			return d.RecordOutcomes(ctx, benchOutcomes(claims))
		})
		loop("retain", func() error {
			if err := d.MakePartitions(ctx, day); errors.Is(err, store.ErrUnavailable) {
				return nil // it waits for no lock for long; a later round makes them
			} else if err != nil {
				return err
			}
			cursor, before := deliveries.PruneCursor{}, clock().Add(-3*day)
			for n := 1; n > 0; {
				var err error
				if n, err = d.PruneDeliveries(ctx, before, 500, &cursor); err != nil {
					return err
				}
			}
			gone, err := d.DropPartition(ctx, before)
			if gone {
				dropped.Add(1)
			}
			now.Add((2 * time.Hour).Microseconds())
			if errors.Is(err, store.ErrUnavailable) {
				return nil // likewise
			}
			return err
		})
	}
	for deadline := time.Now().Add(5 * time.Minute); dropped.Load() < 12 && time.Now().Before(deadline); {
		_ = must(d[0].Account(ctx, accounts[0]))(t)
	}
	close(stop)
	workers.Wait()
	kept, attempts, events, broken := counts(t, d[0])
	if broken != 0 || dropped.Load() < 12 {
		t.Errorf("%d partitions dropped; %d deliveries, %d attempts, %d events, of which %d broken", dropped.Load(), kept, attempts, events, broken)
	}
}

// migrationsBefore returns the migrations of the program before that of a number.
func migrationsBefore(t *testing.T, number string) fs.FS {
	before := fstest.MapFS{}
	for _, name := range must(fs.Glob(migrationFiles, "migrations/*/*.sql"))(t) {
		if path.Base(name) < number {
			before[strings.TrimPrefix(name, "migrations/")] = &fstest.MapFile{Data: must(migrationFiles.ReadFile(name))(t)}
		}
	}
	return before
}

// TestPartitionsForthAndBack puts the earlier program back, as deliveries/RATIONALE.md says,
// lets it write, and migrates again.
func TestPartitionsForthAndBack(t *testing.T) {
	ctx := context.Background()
	at := place{"postgres", centraltest.Postgres(t)}
	writer := must(sql.Open("pgx", at.url))(t)
	defer func() { _ = writer.Close() }()
	add := func() {
		_, err := writer.ExecContext(ctx, `INSERT INTO attempts VALUES ($1, 1, 'dlv', 0, 0, 0, '{}', '', '')`, store.NewID("dlv", time.Now()))
		noError(t, err)
	}
	earlier := func() {
		old := must(db.Open(ctx, db.Config{URL: at.url, Migrations: migrationsBefore(t, "0012")}))(t)
		add()
		noError(t, old.Close())
	}
	all := len(must(fs.Glob(migrationFiles, "migrations/postgres/*.sql"))(t))
	earlier()
	for turn := range 2 {
		d := open(t, at)
		add()
		var kind string
		var attempts, migrations int
		noError(t, d.db.QueryRow(ctx, `SELECT (SELECT relkind::text FROM pg_class WHERE oid = 'attempts'::regclass),
			(SELECT count(*) FROM attempts), (SELECT count(*) FROM schema_migrations)`).Scan(&kind, &attempts, &migrations))
		if kind != "p" || attempts != 2+2*turn || migrations != all {
			t.Errorf("turn %d: attempts is of kind %q with %d rows after %d migrations", turn, kind, attempts, migrations)
		}
		noError(t, d.Close())
		_, err := writer.ExecContext(ctx, `DELETE FROM schema_migrations WHERE number >= 12`)
		noError(t, err)
		earlier()
	}
}

// TestPartitionsOfTablesInUse migrates a database that an earlier version writes to. No
// row is written anew, and the earlier version goes on.
func TestPartitionsOfTablesInUse(t *testing.T) {
	ctx := context.Background()
	at := place{"postgres", centraltest.Postgres(t)}
	old := must(db.Open(ctx, db.Config{URL: at.url, Migrations: migrationsBefore(t, "0012")}))(t)
	noError(t, old.Close())
	earlier := must(sql.Open("pgx", at.url))(t)
	defer func() { _ = earlier.Close() }()
	insert := must(earlier.PrepareContext(ctx, `INSERT INTO attempts VALUES ($1, 1, 'dlv', 0, 0, 0, '{}', '', '')
		ON CONFLICT (delivery_id, number) DO NOTHING`))(t)
	add := func() error {
		_, err := insert.ExecContext(ctx, store.NewID("dlv", time.Now()))
		return err
	}
	for range 100 {
		noError(t, add())
	}
	_, err := insert.ExecContext(ctx, store.NewID("dlv", time.Now().AddDate(3, 0, 0))) // by a clock far ahead
	noError(t, err)
	files := func(table string) (node int) {
		noError(t, earlier.QueryRowContext(ctx, `SELECT relfilenode FROM pg_class WHERE oid = $1::regclass`, table).Scan(&node))
		return node
	}
	nodes := []int{files("attempts"), files("attempts_pkey"), files("events"), files("events_of_account")}
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				failed <- nil
				return
			default:
				err = add()
			}
		}
		failed <- err
	}()
	d := open(t, at)
	close(stop)
	noError(t, <-failed)
	noError(t, add())
	if now := []int{files("attempts_first"), files("attempts_first_pkey"), files("events_first"), files("events_first_of_account")}; !slices.Equal(now, nodes) {
		t.Errorf("files of the tables were %v and are %v", nodes, now)
	}
	var all, first int
	noError(t, d.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM attempts), (SELECT count(*) FROM attempts_first)`).Scan(&all, &first))
	if all < 101 || first != all {
		t.Errorf("%d attempts, of which %d in the first partition", all, first)
	}
}
