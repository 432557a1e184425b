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

func TestFirsts(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now}
	s := openTest(t, c)
	made := 0
	do := func(name, digest string) (First, bool) {
		t.Helper()
		first, repeated, err := s.Firsts.Do(t.Context(), name, func() (First, error) {
			made++
			return First{Digest: digest, ID: fmt.Sprint("lead_", made)}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return first, repeated
	}
	name := FirstName("key_1", "a")
	if first, repeated := do(name, "x"); repeated || first.ID != "lead_1" {
		t.Errorf("the first: %+v, %v", first, repeated)
	}
	s = reopen(t, s, c)
	at.pass(24*time.Hour - time.Second)
	if first, repeated := do(name, "y"); !repeated || first != (First{"x", "lead_1"}) {
		t.Errorf("repeated: %+v, %v", first, repeated)
	}
	for _, other := range []string{FirstName("key_2", "a"), FirstName("key_1", "b"), FirstName("key_1a", "")} {
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
	_, _, err := s.Firsts.Do(t.Context(), "other", func() (First, error) { return First{}, failed })
	if !errors.Is(err, failed) {
		t.Errorf("a failure: %v", err)
	}
	if _, repeated := do("other", ""); repeated {
		t.Error("a failure was remembered")
	}
}

func TestFirstsAtTheSameTime(t *testing.T) {
	s := openTest(t, Config{})
	var made, repeats atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			first, repeated, err := s.Firsts.Do(context.Background(), "name", func() (First, error) {
				return First{ID: fmt.Sprint("lead_", made.Add(1))}, nil
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
		_, _, _ = s.Firsts.Do(context.Background(), "slow", func() (First, error) {
			close(entered)
			<-release
			return First{}, errors.New("in vain")
		})
	})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Firsts.Do(ctx, "slow", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting without end: %v", err)
	}
	close(release)
	wg.Wait()
}

func TestFirstsAreBoundedAndSwept(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now, Firsts: 160}
	s := openTest(t, c)
	count := func() (n int) {
		if err := s.limits.each(firstPrefix, "", func(string, string) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	do := func(name string) bool {
		t.Helper()
		_, repeated, err := s.Firsts.Do(t.Context(), name, func() (First, error) { return First{ID: "x"}, nil })
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
	if err := s.Firsts.sweep(); err != nil || count() != 0 || len(s.Firsts.order) != 0 {
		t.Errorf("after a day %d on disk, %d in memory, %v", count(), len(s.Firsts.order), err)
	}
}
