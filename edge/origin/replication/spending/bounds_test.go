package spending

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store/central"
)

// TestMadeUpKeysAreForgotten: a node that reports keys which do not exist has the origin hold
// a bounded number of their ids, and those of real keys stay.
func TestMadeUpKeysAreForgotten(t *testing.T) {
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "central.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := &keyLimits{db: db, now: time.Now}
	k.hold("key_real", central.KeyLimit{PerMinute: 7}, true, time.Now())
	for n := range noneKept/wire.MaxSpendKeys + 2 {
		reports := map[string]wire.SpentKey{"key_real": {}}
		for i := range wire.MaxSpendKeys - 1 {
			reports[fmt.Sprint("key_", n, "_", i)] = wire.SpentKey{}
		}
		limits, err := k.of(t.Context(), reports)
		if err != nil {
			t.Fatal(err)
		}
		if limits["key_real"].PerMinute != 7 || limits[fmt.Sprint("key_", n, "_0")].PerMinute != 0 {
			t.Fatalf("the limits are %+v and %+v", limits["key_real"], limits[fmt.Sprint("key_", n, "_0")])
		}
		if len(k.none) > noneKept || len(k.held)+len(k.older) > 1 {
			t.Fatalf("%d ids of no key are held, and %d keys", len(k.none), len(k.held)+len(k.older))
		}
	}
	if len(k.none) == 0 {
		t.Error("no id of no key is held: each report of one asks the database")
	}
	k.hold("key_real", central.KeyLimit{}, false, time.Now()) // revoked
	if held, ok := k.heldOf("key_real"); !ok || held.PerMinute != 0 {
		t.Errorf("of a revoked key %+v is held", held)
	}
}

// TestLimitsOutliveAnOutage: however long the database is away, what was read before holds,
// and is forgotten once the database is there.
func TestLimitsOutliveAnOutage(t *testing.T) {
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "central.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	now := time.Now()
	k := &keyLimits{db: db, now: func() time.Time { return now }}
	k.hold("key_real", central.KeyLimit{PerMinute: 7}, true, now)
	pass := func(ctx context.Context, key string, want int) {
		t.Helper()
		for range 3 {
			now = now.Add(limitFor)
			limits, err := k.of(ctx, map[string]wire.SpentKey{key: {}, "key_new": {}})
			if got, known := limits[key]; ctx.Err() != nil && (err == nil || !known || got.PerMinute != want) {
				t.Fatalf("the database is away: %+v, %v", limits, err)
			}
			if _, known := limits["key_new"]; known != (ctx.Err() == nil) {
				t.Fatalf("a key that was not read: %+v", limits)
			}
			k.forget()
		}
	}
	pass(ended, "key_real", 7)
	pass(t.Context(), "key_other", 0)
	if _, held := k.heldOf("key_real"); held {
		t.Error("the limit of a key that nobody reports is held for ever")
	}
}

// TestLivesOfANode: a node may lose its counters now and then, and not with each report.
func TestLivesOfANode(t *testing.T) {
	var l lives
	now := time.Now()
	for n := range livesKept {
		if !l.note("node_1", fmt.Sprint(n), now.Add(time.Duration(n)*time.Second)) {
			t.Fatalf("life %d is one too many", n+1)
		}
	}
	at := now.Add(livesKept * time.Second)
	if l.note("node_1", "more", at) {
		t.Error("one life more is taken")
	}
	if !l.note("node_1", "0", at) || !l.note("node_2", "more", at) {
		t.Error("a known life, or another node, is refused")
	}
	at = now.Add(lifeKept + time.Second) // "1" is too old
	if !l.note("node_1", "more", at) || l.note("node_1", "again", at) {
		t.Error("the place of one life that is over is for one other")
	}
	if back := now.Add(-2 * lifeKept); !l.note("node_1", "back", back) {
		t.Error("refused after the clock was put back")
	}
	if l.forget(at.Add(2 * lifeKept)); len(l.byNode) != 0 {
		t.Errorf("still kept: %v", l.byNode)
	}
}

// TestLivesOfANodeThatKeepsNothing: each start of a node without a directory of its own is
// another life. One that crashes every ten seconds is merged nevertheless, and lives that are
// reported all the time leave no place.
func TestLivesOfANodeThatKeepsNothing(t *testing.T) {
	var l lives
	now := time.Now()
	for n := range 100 {
		now = now.Add(10 * time.Second)
		if !l.note("node_1", fmt.Sprint(n), now) {
			t.Fatalf("life %d of a node that begins one every ten seconds is refused", n+1)
		}
	}
	for n := range 100 {
		now = now.Add(10 * time.Second)
		for boot := range livesKept {
			l.note("node_2", fmt.Sprint(boot), now)
		}
		if l.note("node_2", fmt.Sprint("more", n), now) {
			t.Fatal("a node draws on its keys in more lives at a time")
		}
	}
}
