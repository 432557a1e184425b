package replication

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
)

// unknown returns what answers nodes, of whom it knows node_1, over a database, and the
// failures that it notes.
func unknown(t *testing.T, log *slog.Logger) (r *requests, failures *[]wire.Failure) {
	t.Helper()
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "central.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	failures = new([]wire.Failure)
	cfg := Config{
		DB: db, Log: log, Now: time.Now, ObserveRefusal: func(string, string, int) {},
		Revoke:  func(context.Context, map[string]time.Time) error { return nil },
		Observe: func(_ string, failure wire.Failure, _ time.Duration) { *failures = append(*failures, failure) },
	}
	p, err := newPresence(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.Put(store.Node{ID: "node_1", Region: "eu"})
	return &requests{Config: cfg, ctx: t.Context(), presence: p, limited: logging.New(log)}, failures
}

// TestStatusOfUnknownNode: a status whose node is not known asks no database, as the others
// wait behind it.
func TestStatusOfUnknownNode(t *testing.T) {
	r, failures := unknown(t, slog.New(slog.DiscardHandler))
	body, err := wire.Encode(&wire.Status{Build: "1"})
	if err != nil {
		t.Fatal(err)
	}
	hear := r.heartbeats()
	for _, node := range []string{"node_new", "node_1"} {
		hear(&nats.Msg{Subject: wire.Subject(node, wire.VerbStatus), Data: body})
	}
	if len(*failures) != 1 || (*failures)[0] != "" || r.presence.Report("node_1").Status.Build != "1" {
		t.Errorf("the failures are %q, and %+v is known", *failures, r.presence.Report("node_1"))
	}
}

// TestLookupsOfUnknownNodes: however many nodes are made up, few are looked up at once, and
// the log has a line for all. A node that is known does not wait for them.
func TestLookupsOfUnknownNodes(t *testing.T) {
	var log bytes.Buffer
	r, failures := unknown(t, slog.New(slog.NewTextHandler(&log, nil)))
	var held []*semaphore
	for range lookupsAtOnce + lookupsWaiting {
		held = append(held, r.presence.lookups.join("", 0))
	}
	ask := func(node string) wire.Failure {
		r.serve(wire.VerbKey, &nats.Msg{Subject: wire.Subject(node, wire.VerbKey)}, func(context.Context, *nats.Msg) (wire.Message, error) {
			return &wire.Head{}, nil
		})
		return (*failures)[len(*failures)-1]
	}
	for i := range 100 {
		if failure := ask(fmt.Sprint("node_made_up_", i)); failure != wire.Unavailable {
			t.Fatalf("the answer to a node that cannot be looked up now is %q", failure)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("%d lines in the log:\n%s", lines, &log)
	}
	if failure := ask("node_1"); failure != "" {
		t.Errorf("the answer to a node that is known is %q", failure)
	}
	for _, one := range held {
		r.presence.lookups.leave("", 0, one)
	}
	if failure := ask("node_made_up"); failure != wire.NotEnrolled {
		t.Errorf("the answer to a node that there is not is %q", failure)
	}
}
