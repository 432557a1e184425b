package webhook

import (
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
)

// PostgreSQL ends the connections of a running sender again and again, in the
// middle of what they do. What was accepted is delivered or used up all the
// same, and since the sender itself lives, nothing arrives that is not logged.
func TestLostConnections(t *testing.T) {
	url := centraltest.Postgres(t)
	name := store.NewID("victim", time.Now())
	server, err := sql.Open("pgx", url)
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })

	healthy := newReceiver(t, nil)
	failing := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	log := &lines{}
	r := newRig(t, url+"&application_name="+name, Config{
		CAFile: caFile(t, healthy), Schedule: soon, HoldMost: 100 * time.Millisecond,
		// What a claim leased whose answer was lost waits for the lease's end.
		Timeout: 3 * time.Second, Lease: 6 * time.Second,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	toHealthy, toFailing := r.subscribe(healthy.URL), r.subscribe(failing.URL)

	var mu sync.Mutex
	var accepted []string
	refused := 0
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(accepted)
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-stop:
					return
				case <-pace.C:
				}
				_, event, err := r.db.AddFiring(t.Context(), store.Firing{AccountID: r.account, Name: "n", Data: []byte("{}"), Action: "a"})
				mu.Lock()
				switch {
				case err == nil:
					accepted = append(accepted, event.ID)
				case errors.Is(err, store.ErrUnavailable):
					refused++
				default:
					t.Errorf("refused with %v", err)
				}
				mu.Unlock()
			}
		})
	}
	for range 25 {
		written, sent := count(), healthy.count()
		until(t, "events are written and sent", time.Minute, func() bool { return count() > written && healthy.count() > sent })
		until(t, "connections at work are ended", time.Minute, func() bool {
			var n int
			must(t, server.QueryRowContext(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE application_name = $1 AND state <> 'idle'`, name).Scan(&n))
			return n > 0
		})
	}
	close(stop)
	writers.Wait()

	db := openDB(t, url, nil)
	if n := settled(t, db, toHealthy, healthy, accepted, len(soon)+1); n[store.StateDead] > 0 {
		t.Errorf("deliveries to an endpoint that answers are %v", n)
	}
	if n := settled(t, db, toFailing, failing, accepted, len(soon)+1); n[store.StateDelivered] > 0 {
		t.Errorf("deliveries to an endpoint that fails are %v", n)
	}
	errors := log.count("level=ERROR")
	if refused+errors == 0 {
		t.Error("the ended connections were not noticed")
	}
	t.Logf("%d events accepted, %d refused, %d errors logged", len(accepted), refused, errors)
}
