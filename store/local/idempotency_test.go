package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestIdempotency(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now}
	s := openTest(t, c)
	made := 0
	do := func(name, digest string) (IdempotencyRecord, bool) {
		t.Helper()
		first, repeated, err := s.Idempotency.Do(t.Context(), name, func() (IdempotencyRecord, error) {
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
	_, _, err := s.Idempotency.Do(t.Context(), "other", func() (IdempotencyRecord, error) { return IdempotencyRecord{}, failed })
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
			first, repeated, err := s.Idempotency.Do(context.Background(), "name", func() (IdempotencyRecord, error) {
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
		_, _, _ = s.Idempotency.Do(context.Background(), "slow", func() (IdempotencyRecord, error) {
			close(entered)
			<-release
			return IdempotencyRecord{}, errors.New("in vain")
		})
	})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Idempotency.Do(ctx, "slow", nil); !errors.Is(err, context.Canceled) {
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
		_, repeated, err := s.Idempotency.Do(t.Context(), name, func() (IdempotencyRecord, error) { return IdempotencyRecord{ID: "x"}, nil })
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
