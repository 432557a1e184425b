package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store/ratelimit"
)

// TestBusy holds that buckets are busy while a change is written, and not else.
func TestBusy(t *testing.T) {
	s := openTest(t, Config{})
	if s.Buckets.Busy() {
		t.Error("busy while nobody changes anything")
	}
	if err := s.Buckets.file.update(func(*changes) error {
		if !s.Buckets.Busy() {
			t.Error("not busy during a change")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Buckets.Take("key", 100); err != nil || s.Buckets.Busy() {
		t.Errorf("after a change: busy %t, %v", s.Buckets.Busy(), err)
	}
}

func TestTakeAdmitsTheLimitAndNoMore(t *testing.T) {
	at := newClock()
	s := openTest(t, Config{Now: at.now})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				b, _, err := s.Buckets.Take("key", 100)
				if err != nil {
					t.Error(err)
				}
				if b.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 100 {
		t.Fatalf("%d admitted at once, want 100", admitted.Load())
	}
	if b, _, err := s.Buckets.Take("another", 100); err != nil || b.Remaining != 99 {
		t.Errorf("another key's bucket: %+v, %v", b, err)
	}
}

func TestNoLimitAdmitsNobody(t *testing.T) {
	s := openTest(t, Config{})
	for _, limit := range []int{0, -1} {
		if b, tell, err := s.Buckets.Take("key", limit); err != nil || b.Allowed || b.RetryMS == 0 || tell != ratelimit.NoReport {
			t.Errorf("limit %d: %+v, %v, %v", limit, b, tell, err)
		}
	}
}

func take(t *testing.T, s *Store, key string, times int) {
	t.Helper()
	for range times {
		if b, _, err := s.Buckets.Take(key, 100); err != nil || !b.Allowed {
			t.Fatalf("take: %+v, %v", b, err)
		}
	}
}

// acknowledge reports the keys to a merger and applies its shares.
func acknowledge(t *testing.T, s *Store, merger *ratelimit.Merger, now time.Time, keys ...string) {
	t.Helper()
	reports, err := s.Buckets.Reports(keys)
	if err != nil {
		t.Fatal(err)
	}
	shares := merger.Merge(ratelimit.Reporter{Node: "node", Boot: s.Buckets.Boot()}, reports, now.UnixMicro())
	if behind, err := s.Buckets.Apply(shares); err != nil || len(behind) > 0 {
		t.Fatal(behind, err)
	}
}

func TestReportsAndShares(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now}
	s := openTest(t, c)
	take(t, s, "a", 3)
	take(t, s, "b", 1)
	got, err := s.Buckets.Reports([]string{"a", "unknown"})
	if want := (ratelimit.Report{Limit: 100, Spent: 3}); err != nil || len(got) != 1 || got["a"] != want {
		t.Fatalf("reports %+v, %v; want %+v of a alone", got, err, want)
	}

	// Another node has spent 50: the share says so, and outlives the process.
	var merger ratelimit.Merger
	merger.Merge(ratelimit.Reporter{Node: "other"}, map[string]ratelimit.Report{"a": {Limit: 100, Spent: 50}}, at.now().UnixMicro())
	acknowledge(t, s, &merger, at.now(), "a")
	boot := s.Buckets.Boot()
	s = reopen(t, s, c)
	if s.Buckets.Boot() != boot {
		t.Error("a restart began another life of the counters")
	}
	if keys, err := s.Buckets.Unacked(); err != nil || !slices.Equal(keys, []string{"b"}) {
		t.Errorf("not confirmed: %v, %v; want b", keys, err)
	}
	if b, _, err := s.Buckets.Take("a", 100); err != nil || b.Remaining != 46 {
		t.Errorf("%+v, %v; want 46 to remain", b, err)
	}
	if _, err := s.Buckets.Apply(map[string]ratelimit.Share{"swept": {Spent: 7}}); err != nil {
		t.Error(err)
	}
	if _, err := s.Buckets.Reports([]string{"b"}); err != nil {
		t.Fatal(err)
	}
	if behind, err := s.Buckets.Apply(map[string]ratelimit.Share{"b": {Nodes: 1}}); err != nil || !behind["b"] {
		t.Errorf("a share that was sent before the report came: %v, %v", behind, err)
	}
	if got, err := s.Buckets.Reports([]string{"swept"}); err != nil || len(got) != 0 {
		t.Errorf("a share made an account: %v, %v", got, err)
	}
}

// A file that lost its end counts as another life, so that what is spent next
// is not taken for what the origin has heard of already.
func TestDamageBeginsAnotherLife(t *testing.T) {
	c := Config{Dir: t.TempDir()}
	s := openTest(t, c)
	boot := s.Buckets.Boot()
	take(t, s, "a", 5)
	path := filepath.Join(c.Dir, "limits.db")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-200] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, c)
	second := s.Buckets.Boot()
	if second == boot {
		t.Error("the counters go on as if nothing was lost")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, c)
	if third := s.Buckets.Boot(); third == second || third == boot {
		t.Error("a new file goes on with an old life")
	}
}

// TestClockPutBackHoldsNobodyUp: a key that has spent all gets tokens again once they are due
// by the clock that was put back, not by the earlier one.
func TestClockPutBackHoldsNobodyUp(t *testing.T) {
	at := newClock()
	s := openTest(t, Config{Now: at.now})
	allowed := func() bool {
		t.Helper()
		answer, _, err := s.Buckets.Take("key_1", 60)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Allowed
	}
	for allowed() {
	}
	at.pass(-time.Hour)
	if allowed() {
		t.Error("a clock that was put back gives tokens")
	}
	at.pass(time.Minute)
	if !allowed() {
		t.Error("no token a minute after the clock was put back")
	}
}

func TestSweepForgetsWhatRests(t *testing.T) {
	at := newClock()
	s := openTest(t, Config{Now: at.now})
	var merger ratelimit.Merger
	var keys []string
	for i := range 1500 {
		keys = append(keys, fmt.Sprintf("rest_%d", i))
		take(t, s, keys[i], 1)
	}
	take(t, s, "unheard", 1)
	acknowledge(t, s, &merger, at.now(), keys...)
	sweep := func(want int64, when string) {
		t.Helper()
		if err := s.Buckets.sweep(); err != nil {
			t.Fatal(err)
		}
		if n := s.Buckets.held.Load(); n != want {
			t.Errorf("%d accounts %s, want %d", n, when, want)
		}
	}
	at.pass(restFor - time.Millisecond)
	sweep(1501, "before they have rested long enough")
	take(t, s, "busy", 3)
	at.pass(time.Millisecond)
	sweep(2, "after they have: the busy one and one that the origin has not heard of")
	if b, _, err := s.Buckets.Take("busy", 100); err != nil || b.Remaining != 96 {
		t.Errorf("the busy key's account: %+v, %v", b, err)
	}
	// One that begins again counts on, and the origin counts what is new.
	take(t, s, keys[0], 2)
	acknowledge(t, s, &merger, at.now(), keys[0])
	if again := merger.Merge(ratelimit.Reporter{Node: "other"}, map[string]ratelimit.Report{keys[0]: {Limit: 100}}, at.now().UnixMicro()); again[keys[0]].Missing != 2*ratelimit.Token {
		t.Errorf("after two more the origin misses %d tokens", again[keys[0]].Missing/ratelimit.Token)
	}
	at.pass(time.Minute)
	// A clock that was a year ahead keeps nothing for that year.
	acknowledge(t, s, &merger, at.now(), "busy", "unheard")
	at.pass(-365 * 24 * time.Hour)
	sweep(1, "once the clock is put right: the one that spent tokens a minute ago")
	at.pass(restFor)
	sweep(0, "after it has rested by the clock that was put right")
}

// TestSweepGivesNoTokensBack: a key that has spent all, and whose spending the origin has
// confirmed, has regained nothing when the clock is put back and accounts are swept. It
// regains from there on.
func TestSweepGivesNoTokensBack(t *testing.T) {
	at := newClock()
	s := openTest(t, Config{Now: at.now})
	take(t, s, "key_1", 100)
	var merger ratelimit.Merger
	acknowledge(t, s, &merger, at.now(), "key_1")
	at.pass(-time.Hour)
	for range 2 {
		if err := s.Buckets.sweep(); err != nil {
			t.Fatal(err)
		}
		if b, _, err := s.Buckets.Take("key_1", 100); err != nil || b.Allowed || b.ResetMS != time.Minute.Milliseconds() {
			t.Errorf("after a sweep with the clock put back: %+v, %v", b, err)
		}
	}
	// Nobody uses the key between the clock that is put back and the sweep after it.
	at.pass(-time.Hour)
	if err := s.Buckets.sweep(); err != nil {
		t.Fatal(err)
	}
	at.pass(600 * time.Millisecond)
	take(t, s, "key_1", 1)
	if b, _, err := s.Buckets.Take("key_1", 100); err != nil || b.Allowed {
		t.Errorf("a second token after 600 ms: %+v, %v", b, err)
	}
	at.pass(time.Minute)
	acknowledge(t, s, &merger, at.now(), "key_1")
	at.pass(2 * time.Minute) // the origin's clock was put back too: it misses 101
	if err := s.Buckets.sweep(); err != nil || s.Buckets.Len() != 0 {
		t.Errorf("a full bucket is held after it has rested: %v", err)
	}
}
