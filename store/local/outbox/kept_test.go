package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"partneredge/store"

	"partneredge/store/durable"
)

// keeper opens outboxes that keep what was removed for 48 hours.
type keeper struct {
	t    *testing.T
	path string
	disk durable.Disk
	room int64
	free atomic.Int64
	now  atomic.Int64 // seconds
	jump atomic.Int64 // seconds by which the time of day is set, and nothing else
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{t: t, path: filepath.Join(t.TempDir(), "outbox"), room: 1 << 20}
	k.free.Store(1 << 30)
	return k
}

func (k *keeper) pass(d time.Duration) { k.now.Add(int64(d.Seconds())) }

// clock returns a time as time.Now does, whose monotonic reading knows nothing of jumps.
func (k *keeper) clock() time.Time {
	t := keeperBegan.Add(time.Duration(k.now.Load()) * time.Second)
	*(*uint64)(unsafe.Pointer(&t)) += uint64(k.jump.Load()) << 30 // where package time has the seconds
	return t
}

var keeperBegan = time.Now()

func (k *keeper) open(keepFor time.Duration) *Outbox {
	k.t.Helper()
	o, err := Open(Config{
		Disk: k.disk, Path: k.path, RejectedPath: k.path + ".rejected", MaxBytes: k.room, SegmentBytes: 3 * recordOf, KeepFor: keepFor,
		Free: func(string) (int64, int64, error) { return k.free.Load(), 0, nil },
		Log:  slog.New(slog.DiscardHandler), Now: k.clock,
	})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = o.Close() })
	return o
}

// reopen closes o, gives the marks the time that the test's clock shows, as if the
// disk had it, and opens the outbox again.
func (k *keeper) reopen(o *Outbox, keepFor time.Duration) *Outbox {
	k.t.Helper()
	if err := o.Close(); err != nil {
		k.t.Fatal(err)
	}
	marks, _ := filepath.Glob(k.path + "*" + goneSuffix)
	for _, path := range marks {
		at := k.clock()
		if err := os.Chtimes(path, at, at); err != nil {
			k.t.Fatal(err)
		}
	}
	return k.open(keepFor)
}

func remove(t *testing.T, o *Outbox, ids ...string) {
	t.Helper()
	if err := o.Remove(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
}

func offerAgain(t *testing.T, o *Outbox) {
	t.Helper()
	if err := o.OfferAgain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// rest does the upkeep that comes while the clock goes on as it should.
func (k *keeper) rest(t *testing.T, o *Outbox) {
	t.Helper()
	for range steadyUpkeeps + 1 {
		upkeep(t, o)
		k.pass(time.Second)
	}
}

func upkeep(t *testing.T, o *Outbox) {
	t.Helper()
	if err := o.ask(t.Context(), job{task: o.upkeep}); err != nil {
		t.Fatal(err)
	}
}

const keepFor = 48 * time.Hour

// TestOfferAgain: everything that was handed over waits again, once, in its order
// and also after a restart; it can be handed over and offered any number of times.
func TestOfferAgain(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		k := newKeeper(t)
		o := k.open(keepFor)
		restart := func() {
			if restarts {
				o = k.reopen(o, keepFor)
			}
		}
		add(t, o, ids(10)...)
		remove(t, o, "lead_01", "lead_04", "lead_03", "lead_05", "lead_07", "lead_09")
		restart()
		expect(t, o, "lead_00", "lead_02", "lead_06", "lead_08")
		for range 3 {
			offerAgain(t, o)
			expect(t, o, ids(10)...)
			restart()
			expect(t, o, ids(10)...)
			remove(t, o, ids(10, 3)...)
			restart()
			expect(t, o, "lead_03")
		}
		if len(o.Wake()) == 0 {
			t.Error("the reader was not woken")
		}
		offerAgain(t, o)
		add(t, o, "lead_03", "lead_10")
		if err := o.Append(t.Context(), Item{"lead_04", []byte("other")}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("another body: %v", err)
		}
		expect(t, o, ids(11)...)
	}
}

// TestKeptEnds: what was handed over is off the disk after 48 hours, and an hour at
// most, however few leads come, and also beside one that waits.
func TestKeptEnds(t *testing.T) {
	k := newKeeper(t)
	o := k.open(keepFor)
	add(t, o, ids(4)...) // one more than a segment
	remove(t, o, ids(4, 1)...)
	upkeep(t, o)
	k.pass(time.Hour)
	upkeep(t, o)
	atRest(t, o)
	if got := files(t, k.path); !strings.Contains(got, "outbox.1.kept-") {
		t.Errorf("files %s", got)
	}
	k.pass(keepFor - time.Hour - time.Minute)
	k.rest(t, o)
	o = k.reopen(o, keepFor)
	offerAgain(t, o)
	expect(t, o, ids(4)...)
	remove(t, o, ids(4, 1)...)
	k.pass(time.Hour)
	upkeep(t, o)
	k.pass(keepFor)
	k.rest(t, o)
	offerAgain(t, o)
	expect(t, o, "lead_01")
	remove(t, o, "lead_01")
	k.pass(time.Hour)
	upkeep(t, o)
	k.pass(-keepFor - 2*time.Hour) // a clock that was put back
	k.rest(t, o)
	k.pass(keepFor)
	k.rest(t, o)
	atRest(t, o)
	if got := files(t, k.path); got != "" {
		t.Errorf("files %s", got)
	}
}

// TestKeptOverARestart: what is gone from beside an item that waits has the age that it
// had, and not that of the process.
func TestKeptOverARestart(t *testing.T) {
	for age, want := range map[time.Duration][]string{keepFor - time.Minute: ids(4), keepFor: ids(4, 1, 2)} {
		k := newKeeper(t)
		o := k.open(keepFor)
		add(t, o, ids(4)...)
		remove(t, o, "lead_01", "lead_02")
		o = k.reopen(o, keepFor)
		k.pass(age - time.Minute)
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		o = k.open(keepFor)
		k.rest(t, o)
		k.pass(time.Minute - steadyUpkeeps*time.Second)
		upkeep(t, o)
		offerAgain(t, o)
		expect(t, o, want...)
	}
}

// TestKeptIsNotWrittenOver: a segment that is made after a restart takes the place of none
// that is kept.
func TestKeptIsNotWrittenOver(t *testing.T) {
	k := newKeeper(t)
	o := k.open(keepFor)
	for i := range 3 {
		id := fmt.Sprintf("lead_%02d", i)
		add(t, o, id)
		remove(t, o, id)
		k.pass(keepFor/keepParts + time.Minute)
		upkeep(t, o) // retires the segment
		o = k.reopen(o, keepFor)
	}
	offerAgain(t, o)
	expect(t, k.reopen(o, keepFor), ids(3)...)
}

// TestRemoveTakesEachOfAnID: an item that was handed over, came once more and was offered
// again is gone once it has been handed over.
func TestRemoveTakesEachOfAnID(t *testing.T) {
	k := newKeeper(t)
	o := k.open(keepFor)
	add(t, o, "lead_00")
	remove(t, o, "lead_00")
	add(t, o, "lead_00")
	k.pass(keepFor/keepParts + time.Minute)
	upkeep(t, o)
	add(t, o, "lead_01") // in another segment
	remove(t, o, "lead_00")
	atRest(t, o)
	add(t, o, "lead_00")
	offerAgain(t, o)
	remove(t, o, "lead_00")
	expect(t, o, "lead_01")
}

// TestTailEnds: a segment takes items for an hour after its first, however often they
// come, and for a whole one again after it was emptied.
func TestTailEnds(t *testing.T) {
	k := newKeeper(t)
	k.room = 9 * recordOf
	o := k.open(keepFor)
	sealed := func(want bool) {
		t.Helper()
		upkeep(t, o)
		inWriter(t, o, func() {
			if (o.tail == nil) != want {
				t.Errorf("sealed %t, want %t", !want, want)
			}
		})
	}
	add(t, o, ids(9)...)
	remove(t, o, "lead_06", "lead_07", "lead_08")
	k.pass(40 * time.Minute)
	add(t, o, "lead_09", "lead_10") // which those give way to
	remove(t, o, "lead_09")
	k.pass(40 * time.Minute)
	sealed(false)
	add(t, o, "lead_11")
	k.pass(19 * time.Minute)
	sealed(false)
	k.pass(time.Minute)
	sealed(true)
}

// TestKeptOverClockJumps: a clock that is wrong when the outbox is opened, or for a
// moment, ends nothing that is kept.
func TestKeptOverClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{1000 * time.Hour, -1000 * time.Hour} {
		k := newKeeper(t)
		o := k.open(keepFor)
		add(t, o, ids(7)...)
		remove(t, o, ids(7)...)
		k.pass(jump)
		upkeep(t, o)
		o = k.reopen(o, keepFor)
		for range steadyUpkeeps {
			upkeep(t, o)
		}
		k.pass(-jump)
		k.rest(t, o)
		offerAgain(t, o)
		expect(t, o, ids(7)...)
	}
}

// TestKeptOverJumpsOfARunningClock: as above, where only the time of day jumps, and nothing
// but the monotonic clock goes on. What was kept before a restart stays, be it an upkeep or
// another segment that ends meanwhile, and so does what is gone from beside an item that waits.
func TestKeptOverJumpsOfARunningClock(t *testing.T) {
	for _, jump := range []time.Duration{1000 * time.Hour, -1000 * time.Hour} {
		k := newKeeper(t)
		o := k.open(keepFor)
		add(t, o, ids(8)...)
		remove(t, o, ids(8, 6)...)
		o = k.reopen(o, keepFor)
		k.rest(t, o)
		k.jump.Store(int64(jump.Seconds()))
		if !k.clock().Round(0).After(time.Now().Add(999*time.Hour)) && jump > 0 || k.clock().Sub(keeperBegan) > time.Minute {
			t.Fatalf("the clock is at %v", k.clock())
		}
		all := ids(8)
		if jump > 0 {
			all = ids(14)
			add(t, o, all[8:]...)
			remove(t, o, all[8:]...)
		}
		upkeep(t, o)
		k.jump.Store(0)
		k.rest(t, o)
		offerAgain(t, o)
		expect(t, o, all...)
	}
}

// TestKeptOnDemand: without a time to keep, what was handed over is off the disk
// with the next upkeep, and so is what was kept before.
func TestKeptOnDemand(t *testing.T) {
	k := newKeeper(t)
	o := k.open(keepFor)
	add(t, o, ids(4)...)
	remove(t, o, ids(4)...)
	o = k.reopen(o, 0)
	upkeep(t, o)
	offerAgain(t, o)
	expect(t, o)
	add(t, o, ids(2)...)
	remove(t, o, ids(2)...)
	upkeep(t, o)
	offerAgain(t, o)
	expect(t, o)
}

// TestKeptGivesWay: no lead is refused for what was handed over, be it the outbox
// or its disk that is full; the oldest goes first.
func TestKeptGivesWay(t *testing.T) {
	for _, full := range []string{"outbox", "disk"} {
		k := newKeeper(t)
		k.room = 40 * recordOf
		o := k.open(keepFor)
		for i := range 12 { // two segments of three each
			all := ids(6 * (i + 1))[6*i:]
			add(t, o, all...)
			remove(t, o, all...)
			k.pass(time.Minute)
		}
		waiting := ids(35)
		add(t, o, waiting...)
		atRest(t, o)
		inWriter(t, o, func() {
			if size := o.used() + o.keptBytes(); size > k.room {
				t.Errorf("%d bytes with what is kept, of %d", size, k.room)
			}
		})
		remove(t, o, waiting...)
		atRest(t, o)
		var kept int64
		inWriter(t, o, func() { kept = o.keptBytes() })
		if kept == 0 || kept > k.room/4 {
			t.Errorf("%d bytes are kept, of %d", kept, k.room)
		}
		want := 40
		if full == "disk" {
			want = 3 // at most, into what the tail has
			k.free.Store(0)
		}
		n := 0
		for ; n < 100; n++ {
			id := fmt.Sprintf("more_%02d", n)
			if err := o.Append(t.Context(), Item{id, bodyOf(id)}); errors.Is(err, store.ErrLimit) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if n != want && (full == "outbox" || n > want) {
			t.Errorf("%s full: %d accepted, want %d", full, n, want)
		}
		if got := files(t, k.path); strings.Contains(got, "kept") {
			t.Errorf("%s full: files %s", full, got)
		}
	}
}

// TestKeptNewest: of what has its share of the disk, the newest stays.
func TestKeptNewest(t *testing.T) {
	k := newKeeper(t)
	o := k.open(keepFor)
	k.free.Store(6 * recordOf * 4)
	var all []string
	for i := range 5 {
		some := ids(3 * (i + 1))[3*i:]
		add(t, o, some...)
		remove(t, o, some...)
		all = append(all, some...)
		k.pass(time.Minute)
	}
	add(t, o, "lead_zz")
	offerAgain(t, o)
	got := pending(t, o)
	if want := append(slices.Clone(all[len(all)-len(got)+1:]), "lead_zz"); len(got) < 4 || len(got) > 13 || !slices.Equal(got, want) {
		t.Errorf("%v wait", got)
	}
}
