package webhook

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"partneredge/edge/disktest"
	"partneredge/store/central/centraltest"
)

// outageConfig is of a sender whose database goes away for a while.
func outageConfig(t *testing.T, healthy *receiver) Config {
	return Config{
		CAFile: caFile(t, healthy), Schedule: soon, HoldMost: 100 * time.Millisecond,
		// What a claim leased whose answer was lost waits for the lease's end.
		Timeout: 3 * time.Second, Lease: 6 * time.Second,
		Log: slog.New(slog.DiscardHandler),
	}
}

// PostgreSQL crashes and recovers, again and again, under a running sender.
func TestDatabaseRestarts(t *testing.T) {
	server := centraltest.NewServer(t, t.TempDir())
	healthy := newReceiver(t, nil)
	failing := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	r := newRig(t, server.URL(), outageConfig(t, healthy))
	toHealthy, toFailing := r.subscribe(healthy.URL), r.subscribe(failing.URL)
	events := r.stream(t)
	for range 5 {
		events.goOn(healthy)
		server.Crash()
		events.refuses(3)
		server.Start()
	}
	events.goOn(healthy)
	events.end()
	events.settle(r.db, toHealthy, toFailing, healthy, failing)
	t.Logf("%d events accepted, %d refused, the first with: %v", len(events.accepted), len(events.refused), events.refused[0])
}

// The disk of PostgreSQL fills up, which may end it, under a running sender.
func TestFullDiskOfPostgres(t *testing.T) {
	disk := disktest.Small(t, "128m")
	server := centraltest.NewServer(t, disk)
	healthy := newReceiver(t, nil)
	failing := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	r := newRig(t, server.URL(), outageConfig(t, healthy))
	toHealthy, toFailing := r.subscribe(healthy.URL), r.subscribe(failing.URL)
	events := r.stream(t)
	for range 3 {
		events.goOn(healthy)
		free := disktest.Fill(t, disk)
		events.refuses(3)
		free()
		server.Start()
	}
	events.goOn(healthy)
	events.end()
	events.settle(r.db, toHealthy, toFailing, healthy, failing)
	t.Logf("%d events accepted, %d refused, the first with: %v", len(events.accepted), len(events.refused), events.refused[0])
}
