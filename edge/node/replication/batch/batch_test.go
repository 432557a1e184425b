package batch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The round trip of these tests, and the bounds of their groups.
const (
	roundTrip = 160 * time.Millisecond
	alone     = 2
	every     = 10 * time.Millisecond
	most      = 5
)

var errUnknown = errors.New("unknown")

// origin answers questions after roundTrip, and notes them.
type origin struct {
	mu     sync.Mutex
	asked  [][]string
	fails  error           // of whole questions
	knows  map[string]bool // others are errUnknown
	inside int             // names that have entered and not left
}

func (o *origin) group() *Group[string] {
	return &Group[string]{Ask: o.ask, Alone: alone, Every: every, Most: most}
}

func (o *origin) ask(ctx context.Context, names []string) []Result[string] {
	o.mu.Lock()
	o.asked = append(o.asked, slices.Clone(names))
	fails := o.fails
	o.mu.Unlock()
	select {
	case <-time.After(roundTrip):
	case <-ctx.Done():
		fails = ctx.Err()
	}
	results := make([]Result[string], len(names))
	for i, name := range names {
		switch {
		case fails != nil:
			results[i].Err = fails
		case !o.knows[name]:
			results[i].Err = errUnknown
		default:
			results[i].Value = "value of " + name
		}
	}
	return results
}

func (o *origin) enter() (func(Result[string]), *Result[string]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inside++
	return func(Result[string]) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.inside--
	}, nil
}

// do asks for a name and reports what came of it, and after what time.
func (o *origin) do(ctx context.Context, g *Group[string], name string) (value string, took time.Duration, err error) {
	began := time.Now()
	value, err = g.Do(ctx, Request[string]{Name: name, Life: context.Background(), Enter: o.enter})
	return value, time.Since(began), err
}

// want requires which questions were asked, and that nothing is under way.
func (o *origin) want(t *testing.T, g *Group[string], asked ...[]string) {
	t.Helper()
	synctest.Wait()
	if !reflect.DeepEqual(o.asked, asked) {
		t.Errorf("asked for %v, want %v", o.asked, asked)
	}
	if o.inside != 0 || len(g.calls) != 0 || len(g.waiting) != 0 || g.underWay != 0 {
		t.Errorf("%d have not left; left over: %v, %v, %d", o.inside, g.calls, g.waiting, g.underWay)
	}
}

func TestFewAreAskedForAtOnceAndMoreTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{knows: map[string]bool{"a": true, "b": true, "c": true, "d": true}}
		g := o.group()
		var all sync.WaitGroup
		for i, name := range []string{"a", "b", "c", "d"} {
			all.Go(func() {
				value, took, err := o.do(t.Context(), g, name)
				want := roundTrip
				if i == alone {
					want += every // the first that waits for others
				} else if i > alone {
					want += every - time.Millisecond
				}
				if value != "value of "+name || err != nil || took != want {
					t.Errorf("%s: %q, %v after %v, want %v", name, value, err, took, want)
				}
			})
			synctest.Wait()
			if i >= alone {
				time.Sleep(time.Millisecond)
			}
		}
		all.Wait()
		o.want(t, g, []string{"a"}, []string{"b"}, []string{"c", "d"})
	})
}

func TestAFullQuestionLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{knows: map[string]bool{}}
		for i := range alone + 2*most {
			o.knows[fmt.Sprint(i)] = true
		}
		g := o.group()
		var all sync.WaitGroup
		for i := range alone + 2*most {
			all.Go(func() {
				if _, took, err := o.do(t.Context(), g, fmt.Sprint(i)); err != nil || took != roundTrip {
					t.Errorf("%d: %v after %v", i, err, took)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		o.want(t, g, []string{"0"}, []string{"1"}, []string{"2", "3", "4", "5", "6"}, []string{"7", "8", "9", "10", "11"})
	})
}

func TestWhatWaitsLeavesWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{knows: map[string]bool{"a": true, "b": true, "c": true}}
		g := o.group()
		g.Every = time.Hour
		var all sync.WaitGroup
		for i, name := range []string{"a", "b", "c"} {
			all.Go(func() {
				_, took, err := o.do(t.Context(), g, name)
				if want := roundTrip * time.Duration(1+i/alone); err != nil || took != want {
					t.Errorf("%s: %v after %v, want %v", name, err, took, want)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		o.want(t, g, []string{"a"}, []string{"b"}, []string{"c"})
	})
}

// TestANameIsAskedForOnce: also while it waits for others, and when whoever came first
// has gone.
func TestANameIsAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{knows: map[string]bool{"a": true, "b": true, "c": true}}
		g := o.group()
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			all.Go(func() {
				if _, _, err := o.do(first, g, name); !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v of one that has gone", name, err)
				}
			})
			synctest.Wait()
		}
		for _, name := range []string{"c", "a", "c", "b", "c"} {
			all.Go(func() {
				if value, _, err := o.do(t.Context(), g, name); value != "value of "+name || err != nil {
					t.Errorf("%s: %q, %v", name, value, err)
				}
			})
			synctest.Wait()
		}
		cancel()
		all.Wait()
		o.want(t, g, []string{"a"}, []string{"b"}, []string{"c"})
	})
}

func TestWhoMayNotEnterAsksForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(origin)
		g := o.group()
		for _, at := range []Result[string]{{Value: "brought meanwhile"}, {Err: errors.New("no room")}} {
			value, err := g.Do(t.Context(), Request[string]{Name: "a", Life: t.Context(), Enter: func() (func(Result[string]), *Result[string]) { return nil, &at }})
			if value != at.Value || err != at.Err {
				t.Errorf("%q, %v", value, err)
			}
		}
		o.want(t, g)
	})
}

// TestFailuresEndOneByOne: what there is comes at once, and what there is not is spread.
func TestFailuresEndOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{knows: map[string]bool{"e": true}}
		g := o.group()
		took := map[string]time.Duration{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			all.Go(func() {
				_, after, err := o.do(t.Context(), g, name)
				if (err == nil) != (name == "e") {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				took[name] = after
				mu.Unlock()
			})
			synctest.Wait()
		}
		all.Wait()
		o.want(t, g, []string{"a"}, []string{"b"}, []string{"c", "d", "e", "f", "g"})
		want := map[string]time.Duration{
			"a": roundTrip, "b": roundTrip, "e": roundTrip,
			"c": roundTrip, "d": roundTrip + every/4, "f": roundTrip + every/2, "g": roundTrip + every*3/4,
		}
		if !reflect.DeepEqual(took, want) {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

// TestAFailedQuestionIsOver: all its names get its error, and are asked for anew.
func TestAFailedQuestionIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{fails: errors.New("away"), knows: map[string]bool{"a": true, "b": true, "c": true, "d": true}}
		g := o.group()
		for round, fails := range []error{o.fails, nil} {
			o.mu.Lock()
			o.fails, o.asked = fails, nil
			o.mu.Unlock()
			var all sync.WaitGroup
			for _, name := range []string{"a", "b", "c", "d"} {
				all.Go(func() {
					if _, _, err := o.do(t.Context(), g, name); err != fails {
						t.Errorf("round %d: %s: %v", round, name, err)
					}
				})
				synctest.Wait()
			}
			all.Wait()
			o.want(t, g, []string{"a"}, []string{"b"}, []string{"c", "d"})
		}
	})
}

// TestWhatFailedIsAskedForAnewAtOnce: also by one who comes while the failures of its
// question still end one by one.
func TestWhatFailedIsAskedForAnewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{fails: errors.New("away"), knows: map[string]bool{}}
		g := o.group()
		g.Alone, g.Every = 0, time.Hour
		var all sync.WaitGroup
		for i := range most {
			name := fmt.Sprint(i)
			o.knows[name] = true
			all.Go(func() {
				if _, _, err := o.do(t.Context(), g, name); err == nil {
					t.Errorf("%s was found while the origin was away", name)
				}
			})
			synctest.Wait()
		}
		time.Sleep(roundTrip + time.Minute) // the first has ended, the last has not
		o.mu.Lock()
		o.fails = nil
		o.mu.Unlock()
		g.mu.Lock()
		g.Alone = 1
		g.mu.Unlock()
		last := fmt.Sprint(most - 1)
		if value, took, err := o.do(t.Context(), g, last); value != "value of "+last || took != roundTrip || err != nil {
			t.Errorf("%q, %v after %v", value, err, took)
		}
		all.Wait()
	})
}
