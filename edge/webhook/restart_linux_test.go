package webhook

import (
	"testing"

	"partneredge/edge/disktest"
	"partneredge/store/central/centraltest"
)

// PostgreSQL crashes and recovers, again and again, under a running sender.
func TestDatabaseRestarts(t *testing.T) {
	server := centraltest.NewServer(t, t.TempDir())
	survives(t, server, 5, func() (back func()) {
		server.Crash()
		return server.Start
	})
}

// The disk of PostgreSQL fills up, which may end it, under a running sender.
func TestFullDiskOfPostgres(t *testing.T) {
	disk := disktest.Small(t, "128m")
	server := centraltest.NewServer(t, disk)
	survives(t, server, 3, func() (back func()) {
		free := disktest.Fill(t, disk)
		return func() {
			free()
			server.Start()
		}
	})
}

// survives takes the database away, which has events refused, and brings it back,
// as often as times: what was accepted is delivered or used up all the same.
func survives(t *testing.T, server *centraltest.Server, times int, away func() (back func())) {
	events := startLoad(t, server.URL())
	for range times {
		events.awaitProgress()
		back := away()
		events.awaitRefused(3)
		back()
	}
	events.awaitProgress()
	events.settle(events.db)
	t.Logf("%d events accepted, %d refused, the first with: %v", len(events.accepted), len(events.refused), events.refused[0])
}
