package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIdempotency(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now}
	s := openTest(t, c)
	made := 0
	do := func(name, digest string) (IdempotencyRecord, bool) {
		t.Helper()
		first, repeated, err := s.Idempotency.Do(t.Context(), name, "", func() (IdempotencyRecord, error) {
			made++
			return IdempotencyRecord{Digest: digest, ID: fmt.Sprint("lead_", made)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return first, repeated
	}
	name := IdempotencyName("key_1", "a")
	if first, repeated := do(name, "x"); repeated || first.ID != "lead_1" {
		t.Errorf("the first: %+v, %v", first, repeated)
	}
	s = reopen(t, s, c)
	at.pass(24*time.Hour - time.Second)
	if first, repeated := do(name, "y"); !repeated || first != (IdempotencyRecord{"x", "lead_1"}) {
		t.Errorf("repeated: %+v, %v", first, repeated)
	}
	for _, other := range []string{IdempotencyName("key_2", "a"), IdempotencyName("key_1", "b"), IdempotencyName("key_1a", "")} {
		if first, repeated := do(other, "z"); repeated {
			t.Errorf("another's: %+v", first)
		}
	}
	at.pass(time.Second)
	if first, repeated := do(name, "y"); repeated || first.Digest != "y" {
		t.Errorf("after a day: %+v, %v", first, repeated)
	}
	at.pass(-25 * time.Hour)
	if _, repeated := do(name, "y"); repeated {
		t.Error("kept for longer than a day by a clock that was put back")
	}

	failed := errors.New("no room")
	_, _, err := s.Idempotency.Do(t.Context(), "other", "", func() (IdempotencyRecord, error) { return IdempotencyRecord{}, failed })
	if !errors.Is(err, failed) {
		t.Errorf("a failure: %v", err)
	}
	if _, repeated := do("other", ""); repeated {
		t.Error("a failure was remembered")
	}
}

func TestIdempotencyAtTheSameTime(t *testing.T) {
	s := openTest(t, Config{})
	var made, repeats atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			first, repeated, err := s.Idempotency.Do(context.Background(), "name", "", func() (IdempotencyRecord, error) {
				return IdempotencyRecord{ID: fmt.Sprint("lead_", made.Add(1))}, nil
			})
			if err != nil || first.ID != "lead_1" {
				t.Errorf("%+v, %v", first, err)
			}
			if repeated {
				repeats.Add(1)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 || repeats.Load() != 15 {
		t.Errorf("made %d times, repeated %d times", made.Load(), repeats.Load())
	}

	entered, release := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		_, _, _ = s.Idempotency.Do(context.Background(), "slow", "", func() (IdempotencyRecord, error) {
			close(entered)
			<-release
			return IdempotencyRecord{}, errors.New("in vain")
		})
	})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Idempotency.Do(ctx, "slow", "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting without end: %v", err)
	}
	close(release)
	wg.Wait()
}

func TestIdempotencyAreBoundedAndSwept(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now, IdempotencyKeys: 160}
	s := openTest(t, c)
	count := func() (n int) {
		if err := s.limits.each(idempotencyPrefix, "", func(string, string) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	do := func(name string) bool {
		t.Helper()
		_, repeated, err := s.Idempotency.Do(t.Context(), name, "", func() (IdempotencyRecord, error) { return IdempotencyRecord{ID: "x"}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return repeated
	}
	for i := range 1000 {
		do(fmt.Sprint("name", i))
		at.pass(time.Millisecond)
	}
	if n := count(); n > 160 || n < 100 {
		t.Errorf("%d remembered, want 160 at most", n)
	}
	s = reopen(t, s, c)
	if !do("name999") || do("name0") {
		t.Error("the last one is forgotten, or the first one not")
	}
	at.pass(24 * time.Hour)
	if err := s.Idempotency.sweep(); err != nil || count() != 0 || len(s.Idempotency.order) != 0 {
		t.Errorf("after a day %d on disk, %d in memory, %v", count(), len(s.Idempotency.order), err)
	}
}

// TestIdempotencyKeysOfOthersStay: an owner with many keys pushes out its own alone, also
// after a restart.
func TestIdempotencyKeysOfOthersStay(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now, IdempotencyKeys: 160}
	s := openTest(t, c)
	do := func(owner string, i int) bool {
		t.Helper()
		at.pass(time.Millisecond)
		_, repeated, err := s.Idempotency.Do(t.Context(), fmt.Sprint(owner, i), owner, func() (IdempotencyRecord, error) {
			return IdempotencyRecord{Digest: "d", ID: "x"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return repeated
	}
	for i := range 70 {
		do("modest", i)
	}
	for i := range 500 {
		if do("greedy", i); i%200 == 0 {
			s = reopen(t, s, c)
		}
	}
	for i := range 70 {
		if !do("modest", i) {
			t.Fatalf("key %d is forgotten", i)
		}
	}
	if !do("greedy", 499) || do("greedy", 400) {
		t.Error("of the many the newest is forgotten, or an old one is not")
	}
}

// TestEvict: each owner loses its oldest records, only where it has more than any that loses
// none, and as many are kept as may be.
func TestEvict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owners := rapid.SliceOfN(rapid.Int64Range(0, 6), 1, 60).Draw(t, "owners")
		most := rapid.IntRange(0, len(owners)-1).Draw(t, "most")
		var order []idempotencyTime
		for i, owner := range owners {
			order = append(order, idempotencyTime{at: int64(i), owner: owner})
		}
		kept, gone := evict(order, most)
		if len(kept) != most || len(gone) != len(order)-most || !slices.IsSortedFunc(kept, func(a, b idempotencyTime) int { return cmp.Compare(a.at, b.at) }) {
			t.Fatalf("%d of %d are kept, want %d in order: %v", len(kept), len(order), most, kept)
		}
		has, newest := map[int64]int{}, map[int64]int64{}
		for _, one := range kept {
			has[one.owner]++
		}
		for _, one := range gone {
			newest[one.owner] = one.at
		}
		for _, one := range kept {
			if last, lost := newest[one.owner]; lost && one.at < last {
				t.Fatalf("owner %d keeps %d and loses %d", one.owner, one.at, last)
			}
		}
		for loser := range newest {
			for owner, n := range has {
				if n > has[loser]+1 {
					t.Fatalf("owner %d keeps %d, and owner %d, which loses some, %d", owner, n, loser, has[loser])
				}
			}
		}
	})
}
