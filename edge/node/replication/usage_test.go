package replication

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/store"
)

// newUsage returns a usage by the clock of time.Now.
func newUsage() *usage {
	return &usage{now: time.Now, warnings: logging.New(slog.New(slog.DiscardHandler)), hash: func(id string) string { return "hash of " + id }}
}

// usedAtOrigin merges reports as the origin does.
type usedAtOrigin map[string]map[string]wire.UsageKey // by boot, by day and key

func (o usedAtOrigin) merge(r *wire.Usage) {
	if o[r.Boot] == nil {
		o[r.Boot] = make(map[string]wire.UsageKey)
	}
	for id, k := range r.Keys {
		name := fmt.Sprint(r.Day, " ", id)
		before := o[r.Boot][name]
		k.Requests, k.Limited = max(k.Requests, before.Requests), max(k.Limited, before.Limited)
		o[r.Boot][name] = k
	}
}

func (o usedAtOrigin) total(name string) (k wire.UsageKey) {
	for _, keys := range o {
		k.Requests += keys[name].Requests
		k.Limited += keys[name].Limited
		k.KeyHash = append(k.KeyHash[:0], keys[name].KeyHash...)
	}
	return k
}

// TestUsageReachesTheOrigin counts requests over several days while reports and
// confirmations get lost and come twice: in the end the origin has every one, once.
func TestUsageReachesTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, origin := newUsage(), make(usedAtOrigin)
		want := make(map[string]wire.UsageKey)
		var old []*wire.Used
		round := func(count bool) (reported bool) {
			if count {
				id := fmt.Sprintf("key_%d", rand.N(5))
				limited := rand.N(4) == 0
				u.count(id, limited)
				name := fmt.Sprint(store.DayOf(time.Now()), " ", id)
				k := want[name]
				if k.Requests++; limited {
					k.Limited++
				}
				want[name] = k
			}
			if r := u.next(); r != nil {
				reported = true
				for range rand.N(3) {
					origin.merge(r)
				}
				if rand.N(2) == 0 {
					origin.merge(r)
					old = append(old, &wire.Used{Boot: r.Boot, Seq: r.Seq})
					u.confirm(old[rand.N(len(old))])
					u.confirm(old[len(old)-1])
				}
			}
			return reported
		}
		for range 3000 {
			round(true)
			time.Sleep(rand.N(3 * time.Minute))
		}
		for quiet := 0; quiet < 5; quiet++ {
			if round(false) {
				quiet = 0
			}
			time.Sleep(2 * time.Minute)
		}
		if len(want) < 10 {
			t.Fatalf("counted only %v", want)
		}
		for name, k := range want {
			if got := origin.total(name); got.Requests != k.Requests || got.Limited != k.Limited {
				t.Errorf("%s: the origin has %+v, want %+v", name, got, k)
			}
		}
		time.Sleep(24 * time.Hour)
		if u.next(); len(u.counters) > 0 {
			t.Errorf("%d counters of days that are over and reported are kept", len(u.counters))
		}
	})
}

// TestUsageReports holds how much and how often is reported.
func TestUsageReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUsage()
		if u.next() != nil {
			t.Error("a node without requests reports")
		}
		for i := range wire.MaxUsageKeys + 10 {
			u.count(fmt.Sprint("key_", i), i == 0)
		}
		first := u.next()
		if first == nil || len(first.Keys) != wire.MaxUsageKeys || string(first.Keys["key_0"].KeyHash) != "hash of key_0" || first.Keys["key_0"].Limited != 1 {
			t.Fatalf("the first report is %+v", first)
		}
		if u.next() != nil {
			t.Error("a second report before the first is confirmed")
		}
		u.count("key_0", false)
		time.Sleep(usageEvery)
		if again := u.next(); again != first || again.Keys["key_0"].Requests != 1 {
			t.Errorf("not confirmed, and sent is %p, not %p again", again, first)
		}
		if time.Sleep(usageEvery); u.next() != nil {
			t.Error("sent for the third time too soon")
		}
		if u.reconnected(); u.next() != first {
			t.Error("not sent after the connection is back")
		}
		u.confirm(&wire.Used{Boot: first.Boot, Seq: first.Seq + 1})
		if u.confirm(&wire.Used{Boot: "other", Seq: first.Seq}); u.next() == nil && u.sent == nil {
			t.Error("another's confirmation counts")
		}
		u.confirm(&wire.Used{Boot: first.Boot, Seq: first.Seq})
		second := u.next() // at once, since there was more than one message holds
		if second == nil || len(second.Keys) != 11 || second.Keys["key_0"].Requests != 2 {
			t.Fatalf("the second report is %+v", second)
		}
		u.confirm(&wire.Used{Boot: second.Boot, Seq: second.Seq})
		u.count("key_1", false)
		if u.next() != nil {
			t.Error("a third report before its time")
		}
		var rest []*wire.Usage
		for r := range u.rest {
			rest = append(rest, r)
		}
		if len(rest) != 1 || rest[0].Keys["key_1"].Requests != 2 {
			t.Errorf("a node that stops reports %v", rest)
		}
	})
}

// TestUsageIsBounded has a node whose origin confirms nothing.
func TestUsageIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, logs := newUsage(), new(bytes.Buffer)
		u.warnings = logging.New(slog.New(slog.NewTextHandler(logs, nil)))
		for i := range 2 * maxCounters {
			if u.count("key_1", false); i < maxCounters && logs.Len() > 0 {
				t.Fatalf("logged before anything is lost: %s", logs)
			}
			time.Sleep(24 * time.Hour)
		}
		if !strings.Contains(logs.String(), "are dropped") {
			t.Errorf("the log does not tell what is lost: %s", logs)
		}
		if len(u.counters) != maxCounters {
			t.Errorf("%d counters are kept", len(u.counters))
		}
		for i := range maxCounted + 1 {
			u.count(fmt.Sprint("key_", i), false)
		}
		if n := len(u.counters[len(u.counters)-1].keys); n >= maxCounted {
			t.Errorf("the last counter has %d keys", n)
		}
	})
}

// TestUsageAroundMidnight has a clock that goes to and fro between two days: each has one
// counter, and nothing is lost.
func TestUsageAroundMidnight(t *testing.T) {
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	now := midnight
	u, origin := newUsage(), make(usedAtOrigin)
	u.now = func() time.Time {
		if u.mu.TryLock() {
			u.mu.Unlock()
			t.Error("the clock is read without the lock: a later count may have an earlier time")
		}
		return now
	}
	for i := range 100 {
		now = midnight.Add(time.Duration(i%2*2-1) * time.Second)
		u.count("key_1", false)
	}
	if len(u.counters) != 2 {
		t.Errorf("two days have %d counters", len(u.counters))
	}
	for r := range u.rest {
		origin.merge(r)
	}
	for _, day := range []time.Time{midnight.Add(-time.Second), midnight} {
		if got := origin.total(fmt.Sprint(store.DayOf(day), " key_1")); got.Requests != 50 {
			t.Errorf("of 50 requests of %v the origin has %d", day, got.Requests)
		}
	}
}

// TestUsageFindsTheHashLater counts a key that is not held at its first request.
func TestUsageFindsTheHashLater(t *testing.T) {
	u, held := newUsage(), ""
	u.hash = func(string) string { return held }
	u.count("key_1", false)
	held = "hash"
	u.count("key_1", false)
	if r := u.next(); r == nil || string(r.Keys["key_1"].KeyHash) != "hash" || r.Keys["key_1"].Requests != 2 {
		t.Errorf("reported is %+v", r)
	}
}
