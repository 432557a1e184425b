package webhook

import (
	"database/sql"
	"log/slog"
	"net/http"
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

	events := r.stream(t)
	for range 25 {
		events.goOn(healthy)
		until(t, "connections at work are ended", time.Minute, func() bool {
			var n int
			must(t, server.QueryRowContext(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE application_name = $1 AND state <> 'idle'`, name).Scan(&n))
			return n > 0
		})
	}
	events.end()

	db := openDB(t, url, nil)
	events.settle(db, toHealthy, toFailing, healthy, failing)
	errors := log.count("level=ERROR")
	if len(events.refused)+errors == 0 {
		t.Error("the ended connections were not noticed")
	}
	t.Logf("%d events accepted, %d refused, %d errors logged", len(events.accepted), len(events.refused), errors)
}
