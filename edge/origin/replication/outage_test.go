package replication

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/logging"
	"partneredge/store/central"
	"partneredge/store/signal"
)

// TestOutageIsLoggedOnceAMinute holds that loops which ask the database every second do
// not fill the log, and with it perhaps the disk, for as long as it is away.
func TestOutageIsLoggedOnceAMinute(t *testing.T) {
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "origin.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		cfg := Config{DB: db, Log: log}
		pump := &pump{Config: cfg, limited: logging.New(log), wake: signal.New()}
		presence := &Presence{cfg: cfg, limited: logging.New(log)}
		ctx, stop := context.WithCancel(t.Context())
		var loops sync.WaitGroup
		loops.Go(func() { pump.run(ctx) })
		loops.Go(func() { presence.run(ctx) })
		time.Sleep(time.Hour)
		stop()
		loops.Wait()
		for _, message := range []string{"cannot push changes", "cannot read the nodes"} {
			if lines := strings.Count(out.String(), message); lines < 59 || lines > 61 {
				t.Errorf("%q is logged %d times in an hour", message, lines)
			}
		}
	})
}
