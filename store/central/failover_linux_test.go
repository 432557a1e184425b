package central

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"partneredge/store"
	"partneredge/store/central/centraltest"
)

// TestFailoverToStandbyThatWasBehind promotes a standby that lacks what was written
// last, while two origins run.
func TestFailoverToStandbyThatWasBehind(t *testing.T) {
	primary := centraltest.NewServer(t, t.TempDir())
	standby := centraltest.NewStandby(t, primary, t.TempDir())
	p := place{"postgres", primary.URL(standby)}
	dbs := []*DB{open(t, p), open(t, p)}
	db := dbs[0]
	victim, other := newKeyOf(t, db, 1), newKeyOf(t, db, 2)
	standby.AwaitReplay(primary)
	standby.Crash()
	nodes := []*follower{{t: t}, {t: t}}
	revokeKey(t, db, other.ID)
	for i, f := range nodes {
		f.ask(dbs[i])
	}
	before := nodes[0].at
	primary.Crash()
	standby.Start()
	standby.Promote()
	for _, db := range dbs {
		awaitAnswer(t, db)
	}
	revokeKey(t, dbs[1], victim.ID) // with the number that the other's revocation had
	for i, f := range nodes {
		if _, reset := f.ask(dbs[i]); !reset || f.at.Seq <= before.Seq || f.at.History == before.History {
			t.Errorf("at origin %d: reset %t, from %v to %v", i, reset, before, f.at)
		}
	}
	if nodes[0].at != nodes[1].at {
		t.Errorf("two origins disagree: %v, %v", nodes[0].at, nodes[1].at)
	}
	revokeKey(t, db, other.ID)
	if refs, reset := nodes[1].ask(dbs[1]); reset || len(refs) != 1 || refs[0] != other.ID {
		t.Errorf("after it: reset %t, told %v", reset, refs)
	}
}

// TestPromotedUnderReaders: nobody writes after the failover, and who asks learns of
// it all the same.
func TestPromotedUnderReaders(t *testing.T) {
	primary := centraltest.NewServer(t, t.TempDir())
	standby := centraltest.NewStandby(t, primary, t.TempDir())
	db := open(t, place{"postgres", primary.URL(standby)})
	newKeyOf(t, db, 1)
	node := follower{t: t}
	node.ask(db)
	standby.AwaitReplay(primary)
	primary.Crash()
	standby.Promote()
	awaitAnswer(t, db)
	if _, reset := node.ask(db); !reset {
		t.Error("not told to begin afresh")
	}
	if _, reset := node.ask(db); reset {
		t.Error("told so twice")
	}
}

// TestWriteAfterRestart: PostgreSQL is started again while nobody writes, and the next
// write succeeds, with no failure to learn from that its connection has ended.
func TestWriteAfterRestart(t *testing.T) {
	server := centraltest.NewServer(t, t.TempDir())
	db := open(t, place{"postgres", server.URL()})
	victim := newKeyOf(t, db, 1)
	server.Crash()
	server.Start()
	revokeKey(t, db, victim.ID)
}

// awaitAnswer waits until the connections that ended are replaced, those of reads and
// the one of writes.
func awaitAnswer(t *testing.T, db *DB) {
	t.Helper()
	for {
		_, err := db.Key(t.Context(), "key_none")
		write := db.write(t.Context(), "write nothing", nil, func(context.Context, *tx) error { return nil })
		if !errors.Is(err, store.ErrUnavailable) && write == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the database does not answer")
		}
	}
}

// TestNoRightToTheTimeline: an ordinary role that may not ask for it gets an origin
// all the same, and a line in the log.
func TestNoRightToTheTimeline(t *testing.T) {
	server := centraltest.NewServer(t, t.TempDir())
	for _, statement := range []string{"REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC", "CREATE ROLE plain LOGIN",
		"GRANT ALL ON SCHEMA public TO plain"} {
		server.Exec(statement)
	}
	var log bytes.Buffer
	db := openWith(t, place{"postgres", server.URL() + "&user=plain"}, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	key := newKeyOf(t, db, 1)
	node := follower{t: t}
	node.ask(db)
	revokeKey(t, db, key.ID)
	if refs, reset := node.ask(db); reset || len(refs) != 1 {
		t.Errorf("reset %t, told %v", reset, refs)
	}
	if text := log.String(); strings.Count(text, "does not say which timeline") != 1 || !strings.Contains(text, "GRANT EXECUTE") {
		t.Errorf("log: %s", text)
	}
}
