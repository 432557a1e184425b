package webhook

import (
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"partneredge/edge/disktest"
	"partneredge/store"
	"partneredge/store/logtest"
)

// The disk of a running sender fills up while tries are under way. Events are
// refused then, what had been accepted is sent, and once there is room again
// its outcomes are written and delivery goes on.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := disktest.Small(t, "16m")
	answer := make(chan struct{})
	endpoint := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-answer:
		case <-q.Context().Done():
			gone(q)
		}
	})
	log := &logtest.Buffer{}
	f := newFixture(t, filepath.Join(disk, "origin.db"), Config{
		CAFile: caFile(t, endpoint), Log: slog.New(slog.NewTextHandler(log, nil)),
		// A try whose time is up before the disk is full has others to come.
		Schedule: []time.Duration{time.Second, time.Second, time.Second, time.Second, time.Second, time.Second},
	})
	sub := f.subscribe(endpoint.URL)
	var accepted []string
	for range 40 {
		accepted = append(accepted, f.fire())
	}
	until(t, "tries are under way", func() bool { return endpoint.count() > 0 })

	free := disktest.Fill(t, disk)
	for refused := 0; refused < 10; {
		_, event, err := f.db.AddFiring(t.Context(), store.Firing{AccountID: f.account, Name: "n", Data: []byte("{}"), Action: "a"})
		switch {
		case err == nil:
			accepted = append(accepted, event.ID)
			refused = 0
		case errors.Is(err, store.ErrUnavailable):
			refused++
		default:
			t.Fatalf("refused with %v", err)
		}
	}
	sent := endpoint.count()
	close(answer)
	until(t, "more is sent while the disk is full", func() bool { return endpoint.count() > sent })
	until(t, "outcomes find no room", func() bool { return log.Count("cannot write webhook outcomes") > 0 })
	free()

	for range 5 {
		accepted = append(accepted, f.fire())
	}
	states := settled(t, f.db, sub, endpoint, accepted, 7)
	if states[store.StateDelivered] != len(accepted) || len(states) != 1 {
		t.Errorf("of %d events that were accepted, deliveries are %v", len(accepted), states)
	}
}
