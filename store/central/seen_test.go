package central

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/fleet"
)

// TestParallelNodes notes when nodes spoke, and what they are to run, from two origins
// that list the same nodes in opposite orders: no transaction has to begin again, since
// none waits for one that waits for it.
func TestParallelNodes(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		dbs := []*DB{open(t, p)}
		dbs = append(dbs, dbs[0]) // of SQLite, which has one process
		if p.kind == "postgres" {
			dbs[1] = open(t, p)
		}
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
		seen := must(dbs[1].LastSeen(ctx, append([]string{"node_never"}, ids[:2]...)))(t)
		if len(seen) != 2 || !seen[ids[0]].Equal(last) || !seen[ids[1]].Equal(last.Add(time.Second)) {
			t.Errorf("seen last: %v", seen)
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
		var idle string
		if err := tx.Get(ctx, `SELECT current_setting('idle_in_transaction_session_timeout')`, nil, &idle); err != nil || idle != "5s" {
			t.Errorf("the transaction may do nothing for %q: %v", idle, err)
		}
		if _, err := tx.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil { // this machine may take longer
			t.Error(err)
		}
		if busy := must(d.SeenNodes(ctx, seen))(t); !busy {
			t.Error("two note at once")
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

// another opens a database as another program does.
func (p place) another(t *testing.T) *sql.DB {
	t.Helper()
	driver, source := "pgx", p.url
	if p.kind == "sqlite" {
		driver, source = "sqlite", (&url.URL{Scheme: "file", Path: p.url}).String()
	}
	other := must(sql.Open(driver, source))(t)
	t.Cleanup(func() { noError(t, other.Close()) })
	return other
}

// TestSeenOfEarlierProgram takes over when nodes were seen from the program before the
// table of that, and notes those that such a program enrols while it still runs.
func TestSeenOfEarlierProgram(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		noError(t, must(db.Open(ctx, db.Config{URL: p.url, Migrations: migrationsBefore(t, "0023")}))(t).Close())
		earlier := p.another(t)
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

// TestSeenByAWrongClock: a time some hours ahead was noted by a clock that was wrong, and does
// not last; one that is days ahead tells that the clock was put back.
func TestSeenByAWrongClock(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		d := open(t, p)
		now := d.Now()
		for ahead, replaced := range map[time.Duration]bool{time.Minute: false, 3 * time.Hour: true, 48 * time.Hour: false} {
			id := must(d.AddNode(ctx, store.Node{Name: "n", Region: "r", PublicKey: ahead.String()}))(t).ID
			for _, at := range []time.Time{now.Add(ahead), now} {
				must(d.SeenNodes(ctx, []fleet.NodeSeen{{ID: id, Version: "1", At: at}}))(t)
			}
			want := now.Add(ahead)
			if replaced {
				want = now
			}
			if got := must(d.Node(ctx, id))(t).LastSeenAt; !got.Equal(want) {
				t.Errorf("after a time %s ahead the node was seen at %s, want %s", ahead, got, want)
			}
		}
	})
}
