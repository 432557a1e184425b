package webhook

import (
	"database/sql"
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

	events := startLoad(t, url+"&application_name="+name)
	for range 25 {
		events.awaitProgress()
		until(t, "connections at work are ended", func() bool {
			var n int
			must(t, server.QueryRowContext(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE application_name = $1 AND state <> 'idle'`, name).Scan(&n))
			return n > 0
		})
	}
	events.settle(openDB(t, url))
	errors := events.log.Count("level=ERROR")
	if len(events.refused)+errors == 0 {
		t.Error("the ended connections were not noticed")
	}
	t.Logf("%d events accepted, %d refused, %d errors logged", len(events.accepted), len(events.refused), errors)
}
