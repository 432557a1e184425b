package central

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	engine "partneredge/store/central/db"
	"partneredge/store/central/deliveries"
)

// TestMain lets this test program be the process that TestKill kills.
func TestMain(m *testing.M) {
	if address := os.Getenv("CENTRAL_TEST_VICTIM"); address != "" {
		victim(address, os.Getenv("CENTRAL_TEST_ACCOUNT"))
	}
	os.Exit(m.Run())
}

// victim writes until it is killed, and says what it has been answered.
func victim(address, account string) {
	ctx := context.Background()
	db, err := Open(ctx, Config{URL: address})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var out sync.Mutex
	inParallel(8, func() {
		for {
			f, e, err := db.AddFiring(ctx, store.Firing{AccountID: account, Name: "n"})
			out.Lock()
			if err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
			fmt.Println("kept", f.ID, e.ID)
			out.Unlock()
		}
	})
}

// TestKill kills a writing process again and again. What it had been answered
// is there, with event and delivery, and the changes have no gap.
func TestKill(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		noError(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired)))
		noError(t, db.Close())
		var firings, events sync.Map
		for range 3 {
			process := exec.Command(os.Args[0])
			process.Env = append(os.Environ(), "CENTRAL_TEST_VICTIM="+p.url, "CENTRAL_TEST_ACCOUNT="+a.ID)
			out, err := process.StdoutPipe()
			noError(t, err)
			noError(t, process.Start())
			lines := bufio.NewScanner(out)
			for n := 0; lines.Scan(); n++ {
				words := strings.Fields(lines.Text())
				if len(words) != 3 || words[0] != "kept" {
					t.Errorf("the process said %q", lines.Text())
					break
				}
				firings.Store(words[1], true)
				events.Store(words[2], true)
				if n == 100 {
					noError(t, process.Process.Kill()) // what it still has said is read
				}
			}
			noError(t, lines.Err())
			_ = process.Wait()
		}
		db = open(t, p)
		mustHaveFirings(t, db, a.ID, &firings)
		events.Range(func(id, _ any) bool {
			items, _, err := db.Deliveries(ctx, deliveries.Filter{EventID: id.(string)}, store.Page{})
			if err != nil || len(items) != 1 {
				t.Errorf("event %s: deliveries %v, %v", id, items, err)
			}
			return true
		})
		var rows, loose, changes, latest int
		noError(t, db.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM firings),
			(SELECT count(*) FROM events e WHERE NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = e.id)),
			(SELECT count(*) FROM changes), (SELECT seq FROM change_counter)`).Scan(&rows, &loose, &changes, &latest))
		if rows < 300 || loose != 0 || changes != latest {
			t.Errorf("%d firings, %d events without delivery, %d changes up to %d", rows, loose, changes, latest)
		}
	})
}

// TestFullDisk lets SQLite have no more pages, then some again.
func TestFullDisk(t *testing.T) {
	ctx := context.Background()
	db := open(t, place{"sqlite", filepath.Join(t.TempDir(), "full.db")})
	a := newAccount(t, db, store.ModeLive)
	noError(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventSentinelFired)))
	pages := func(n int) {
		noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error {
			var got int
			return t.Get(ctx, "PRAGMA max_page_count = "+strconv.Itoa(n), nil, &got)
		}))
	}
	var size int
	noError(t, db.db.QueryRow(ctx, "PRAGMA page_count").Scan(&size))
	pages(size + 40)
	var kept sync.Map
	inParallel(8, func() {
		for {
			f, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID, Name: strings.Repeat("x", 1000)})
			if err != nil {
				wantErr(t, err, store.ErrUnavailable)
				return
			}
			kept.Store(f.ID, true)
		}
	})
	mustHaveFirings(t, db, a.ID, &kept)
	pages(size + 4000)
	f, _, err := db.AddFiring(ctx, store.Firing{AccountID: a.ID})
	noError(t, err)
	kept.Store(f.ID, true)
	mustHaveFirings(t, db, a.ID, &kept)
	var firings, deliveries int
	noError(t, db.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM firings), (SELECT count(*) FROM deliveries)`).Scan(&firings, &deliveries))
	if firings != deliveries {
		t.Errorf("%d firings, %d deliveries", firings, deliveries)
	}
}

// TestLostConnections ends the connections of a DB under its hands.
func TestLostConnections(t *testing.T) {
	ctx := context.Background()
	p := place{"postgres", centraltest.Postgres(t)}
	victims, admin := open(t, place{p.kind, p.url + "&application_name=central_victim"}), open(t, p)
	a := newAccount(t, admin, store.ModeLive)
	var kept sync.Map
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				f, _, err := victims.AddFiring(ctx, store.Firing{AccountID: a.ID})
				if err == nil {
					kept.Store(f.ID, true)
				} else if !errors.Is(err, store.ErrUnavailable) {
					t.Error(err)
				}
			}
		})
	}
	for ended := 0; ended < 5; {
		var n int
		noError(t, admin.db.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name = 'central_victim' AND state <> 'idle'`).Scan(&n))
		if n > 0 {
			ended++
		}
	}
	close(stop)
	writers.Wait()
	deadline := time.Now().Add(time.Minute)
	for {
		f, _, err := victims.AddFiring(ctx, store.Firing{AccountID: a.ID})
		if err == nil {
			kept.Store(f.ID, true)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("does not come back:", err)
		}
	}
	mustHaveFirings(t, admin, a.ID, &kept)
}

func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	db := open(t, place{"sqlite", "sqlite://" + path})
	newAccount(t, db, store.ModeSetup)
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if noError(t, err); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func TestMigrations(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		var mu sync.Mutex
		var dbs []*DB
		inParallel(4, func() {
			db, err := Open(ctx, Config{URL: p.url})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			dbs = append(dbs, db)
			mu.Unlock()
		})
		for _, db := range dbs {
			noError(t, db.Close())
		}
		db := open(t, p)
		all := must(migrationFiles.ReadDir("migrations/" + p.kind))(t)
		var n, latest int
		noError(t, db.db.QueryRow(ctx, `SELECT count(*), max(number) FROM schema_migrations`).Scan(&n, &latest))
		if n != len(all) || latest != len(all) {
			t.Errorf("%d migrations noted, up to %d; want %d", n, latest, len(all))
		}
		a := newAccount(t, db, store.ModeLive)
		if got := must(open(t, p).Account(ctx, a.ID))(t); got != a {
			t.Errorf("after a restart %+v, want %+v", got, a)
		}
		noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error {
			_, err := t.Exec(ctx, `INSERT INTO schema_migrations VALUES (?, 'of tomorrow', 0)`, latest+1)
			return err
		}))
		_, err := Open(ctx, Config{URL: p.url})
		wantErr(t, err, engine.ErrNewer)
	})
}

// TestMigrationFails leaves nothing of a migration that cannot be applied.
func TestMigrationFails(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := context.Background()
		db := open(t, p)
		noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error {
			for _, statement := range []string{`DROP TABLE accounts`, `DROP TABLE events`, `DELETE FROM schema_migrations`} {
				if t.Postgres() {
					statement = strings.Replace(statement, "accounts", "accounts CASCADE", 1)
				} else if strings.Contains(statement, "accounts") {
					continue // others refer to it
				}
				if _, err := t.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		}))
		for range 2 {
			if _, err := Open(ctx, Config{URL: p.url}); err == nil || !strings.Contains(err.Error(), "0001_init") {
				t.Fatalf("opened over tables of another: %v", err)
			}
		}
		var n int
		if err := db.db.QueryRow(ctx, `SELECT count(*) FROM events`).Scan(&n); err == nil {
			t.Error("a part of the migration stayed")
		}
		noError(t, db.db.QueryRow(ctx, `SELECT count(*) FROM schema_migrations`).Scan(&n))
		if n != 0 {
			t.Error("a migration was noted that was not applied")
		}
	})
}
