package spending

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/signal"
)

// TestMadeUpKeysAreForgotten: a node that reports keys which do not exist has the origin hold
// a bounded number of their ids, and those of real keys stay.
func TestMadeUpKeysAreForgotten(t *testing.T) {
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "central.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := &keyLimits{read: db.KeyLimits, now: time.Now}
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
	synctest.Test(t, func(t *testing.T) {
		away := true
		k := &keyLimits{now: time.Now, read: func(context.Context, []string) (map[string]central.KeyLimit, error) {
			if away {
				return nil, store.ErrUnavailable
			}
			return nil, nil
		}}
		k.hold("key_real", central.KeyLimit{PerMinute: 7}, true, time.Now())
		pass := func(key string, want int) {
			t.Helper()
			for range 3 {
				time.Sleep(limitFor)
				limits, err := k.of(t.Context(), map[string]wire.SpentKey{key: {}, "key_new": {}})
				if got, known := limits[key]; away && (!errors.Is(err, store.ErrUnavailable) || !known || got.PerMinute != want) {
					t.Fatalf("the database is away: %+v, %v", limits, err)
				}
				if _, known := limits["key_new"]; known == away {
					t.Fatalf("a key that was not read: %+v", limits)
				}
				k.forget()
			}
		}
		pass("key_real", 7)
		away = false
		pass("key_other", 0)
		if _, held := k.heldOf("key_real"); held {
			t.Error("the limit of a key that nobody reports is held for ever")
		}
	})
}

// TestOldLimitsAreRenewed: a limit that was read long ago is answered once more, and looked
// up behind. With a failure it holds, and the next report has it looked up.
func TestOldLimitsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		limits := map[string]central.KeyLimit{"key_real": {PerMinute: 8}}
		k := &keyLimits{now: time.Now, noted: signal.New(), read: func(context.Context, []string) (map[string]central.KeyLimit, error) {
			if away.Load() {
				return nil, store.ErrUnavailable
			}
			return limits, nil
		}}
		k.hold("key_real", central.KeyLimit{PerMinute: 7}, true, time.Now())
		k.hold("key_revoked", central.KeyLimit{PerMinute: 7}, true, time.Now())
		k.hold("key_no", central.KeyLimit{}, false, time.Now())
		ctx, end := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { k.run(ctx) })
		defer loop.Wait()
		defer end()
		for _, step := range []struct {
			pause         time.Duration
			away          bool
			real, revoked int
		}{
			{0, false, 7, 7},
			{limitFor, true, 7, 7},
			{0, false, 7, 7}, // too soon after the failure
			{lookAgain + 1, false, 8, 0},
		} {
			time.Sleep(step.pause)
			away.Store(step.away)
			got, err := k.of(t.Context(), map[string]wire.SpentKey{"key_real": {}, "key_revoked": {}, "key_no": {}})
			if err != nil || len(got) != 3 || got["key_real"].PerMinute != step.real || got["key_revoked"].PerMinute != step.revoked || got["key_no"].PerMinute != 0 {
				t.Errorf("%+v: the limits are %+v, %v", step, got, err)
			}
			synctest.Wait()
		}
	})
}

// TestLimitsOfADatabaseThatHangs: no report waits for the database because of a key whose
// limit was read before, and because of another one it waits a second, now and then.
func TestLimitsOfADatabaseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int32
		k := &keyLimits{now: time.Now, noted: signal.New(), read: func(ctx context.Context, _ []string) (map[string]central.KeyLimit, error) {
			looks.Add(1)
			defer looks.Add(-1)
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		ctx, end := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { k.run(ctx) })
		defer loop.Wait()
		defer end()
		k.hold("key_real", central.KeyLimit{PerMinute: 7}, true, time.Now())
		time.Sleep(limitFor)
		for i, step := range []struct {
			pause time.Duration
			other bool // the report has a key that was never read, too
			took  time.Duration
		}{
			{0, false, 0}, {0, false, 0}, {0, true, lookTime}, {0, true, 0}, {lookAgain - 1, true, 0}, {1, true, lookTime},
			{renewTime, false, 0}, {0, false, 0},
		} {
			time.Sleep(step.pause)
			reports := map[string]wire.SpentKey{"key_real": {}}
			if step.other {
				reports["key_new"] = wire.SpentKey{}
			}
			began := time.Now()
			request, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			limits, err := k.of(request, reports)
			cancel()
			if took := time.Since(began); took != step.took {
				t.Errorf("step %d: a report waits %v, want %v", i, took, step.took)
			}
			if len(limits) != 1 || limits["key_real"].PerMinute != 7 || (err != nil) != step.other {
				t.Errorf("step %d: the limits are %+v, %v", i, limits, err)
			}
			synctest.Wait()
			if n := looks.Load(); n > 1 {
				t.Errorf("step %d: %d looks at the database at once", i, n)
			}
		}
	})
}

// TestLimitsOfASlowDatabase: a limit that takes longer to read than a report waits is known to
// a later one. What the database refuses keeps no other key's limit from being read.
func TestLimitsOfASlowDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes, damaged := 2*lookTime, errors.New("a damaged row")
		k := &keyLimits{now: time.Now, noted: signal.New(), read: func(ctx context.Context, ids []string) (map[string]central.KeyLimit, error) {
			if slices.Contains(ids, "key_damaged") {
				return nil, damaged
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(takes):
				return map[string]central.KeyLimit{ids[0]: {PerMinute: 8}}, nil
			}
		}}
		ctx, end := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { k.run(ctx) })
		defer loop.Wait()
		defer end()
		of := func(key string) (int, error) {
			limits, err := k.of(t.Context(), map[string]wire.SpentKey{key: {}})
			return limits[key].PerMinute, err
		}
		if _, err := of("key_slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a report waits for longer than a second: %v", err)
		}
		time.Sleep(takes + 1)
		if limit, err := of("key_slow"); limit != 8 || err != nil {
			t.Errorf("read behind, the limit is %d, %v", limit, err)
		}
		takes = 0
		for _, key := range []string{"key_damaged", "key_other"} {
			limit, err := of(key)
			if key == "key_damaged" && !errors.Is(err, damaged) || key == "key_other" && (limit != 8 || err != nil) {
				t.Errorf("%s: the limit is %d, %v", key, limit, err)
			}
		}
	})
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
