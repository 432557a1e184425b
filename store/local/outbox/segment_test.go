package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/logtest"
)

// recordOf is how many bytes the records of add have, with ids of 7 bytes.
const recordOf = recordHead + 7 + 16

// openSegments opens an outbox with three items to a segment.
func openSegments(t *testing.T, path string, room int64, log *slog.Logger) *Outbox {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o, err := Open(Config{
		Path: path, RejectedPath: path + ".rejected", MaxBytes: room, SegmentBytes: 3 * recordOf, Log: log, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// ids returns lead_00 up to n, without those left out.
func ids(n int, without ...int) (all []string) {
	for i := range n {
		if !slices.Contains(without, i) {
			all = append(all, fmt.Sprintf("lead_%02d", i))
		}
	}
	return all
}

// atRest returns when the writer has tidied after all that was done.
func atRest(t *testing.T, o *Outbox) {
	t.Helper()
	inWriter(t, o, func() {})
}

// inWriter has the writer call fn.
func inWriter(t *testing.T, o *Outbox, fn func()) {
	t.Helper()
	if err := o.ask(t.Context(), job{task: func() error { fn(); return nil }}); err != nil {
		t.Fatal(err)
	}
}

// files are the names of an outbox's files.
func files(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestSegments fills segments, hands over some of their items, and then all, with
// restarts in between: what is gone stays gone, and so do the segments.
func TestSegments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openSegments(t, path, 1<<20, nil)
	restart := func() {
		t.Helper()
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		o = openSegments(t, path, 1<<20, nil)
	}
	add(t, o, ids(10)...)
	add(t, o, "lead_00", "lead_09") // which are there
	if err := o.Append(t.Context(), Item{"lead_01", []byte("other")}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same id with another body: %v", err)
	}
	expect(t, o, ids(10)...)
	if got := files(t, path); got != "outbox outbox.1 outbox.2 outbox.3" {
		t.Errorf("files %s", got)
	}
	restart()
	expect(t, o, ids(10)...)
	if err := o.Remove(t.Context(), "lead_07", "lead_00", "lead_02", "lead_03", "lead_04", "lead_05"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		expect(t, o, "lead_01", "lead_06", "lead_08", "lead_09")
		atRest(t, o)
		if got := files(t, path); got != "outbox outbox.2 outbox.2.gone outbox.3 outbox.gone" {
			t.Errorf("files %s", got)
		}
		restart()
	}
	add(t, o, "lead_10", "lead_11", "lead_12", "lead_03")
	expect(t, o, "lead_01", "lead_06", "lead_08", "lead_09", "lead_10", "lead_11", "lead_12", "lead_03")
	if err := o.Remove(t.Context(), pending(t, o)...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		expect(t, o)
		atRest(t, o)
		if got := files(t, path); got != "outbox.4 outbox.4.gone" {
			t.Errorf("files %s", got)
		}
		restart()
	}
}

// TestOutboxOfAnEarlierBuild opens the one file that there was, with removals among
// its records, and goes on beside it.
func TestOutboxOfAnEarlierBuild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	var data []byte
	for _, id := range ids(9) {
		data = appendRecord(data, recordLead, id, bodyOf(id))
	}
	data = appendRecord(data, recordGone, "lead_04", nil)
	data = appendRecord(data, recordGone, "lead_00", nil)
	write(t, path, append(data, make([]byte, 1000)...))
	log, text := logtest.New()
	for range 2 {
		o := openSegments(t, path, 1<<20, log)
		add(t, o, "lead_09")
		expect(t, o, ids(10, 0, 4)...)
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(data) || text.Lines() != 0 {
		t.Errorf("the file has %d bytes, want %d, %v; log: %s", len(got), len(data), err, text)
	}
}

// TestSegmentDamaged: damage costs what it is in, and concerns no other segment.
func TestSegmentDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openSegments(t, path, 1<<20, nil)
	add(t, o, ids(12)...)
	if err := o.Remove(t.Context(), "lead_03", "lead_09"); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	damage(t, path+".1", recordOf+20)
	log, text := logtest.New()
	for range 2 {
		o = openSegments(t, path, 1<<20, log)
		expect(t, o, ids(12, 3, 4, 9)...)
		figures := fmt.Sprintf("kept_bytes=%d lost_bytes=%d", 2*recordOf, recordOf)
		if aside, _ := filepath.Glob(path + "*.damaged-*"); len(aside) != 1 || text.Lines() != 1 ||
			!strings.Contains(text.String(), "outbox.1") || !strings.Contains(text.String(), figures) {
			t.Errorf("set aside: %v, log: %s", aside, text)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMarksOfOthers: marks that are damaged, or left of another segment, remove
// nothing.
func TestMarksOfOthers(t *testing.T) {
	for name, marks := range map[string][]byte{
		"noise": []byte("\x00\x00\x00\x00\x01\x02\x03\x04\xff\xff\xff\xff\xff\xff\xff\xff\x25"), "empty": nil,
		"of other records": {0, 0, 0, 0, 9, 9, 9, 9, recordOf, 0, 0, 0, 8, 8, 8, 8},
	} {
		path := filepath.Join(t.TempDir(), "outbox")
		o := openSegments(t, path, 1<<20, nil)
		add(t, o, ids(5)...)
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		write(t, path+".gone", marks)
		write(t, path+".7.gone", marks)
		o = openSegments(t, path, 1<<20, nil)
		expect(t, o, ids(5)...)
		add(t, o, ids(30)...)
		if err := o.Remove(t.Context(), "lead_01"); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		o = openSegments(t, path, 1<<20, nil)
		if got := pending(t, o); !slices.Equal(got, ids(30, 1)) {
			t.Errorf("%s: %v wait", name, got)
		}
	}
}

// TestRoomOfSegments: the bound is of all segments together, and a lead that waits
// for long does not hold the room of those that are gone.
func TestRoomOfSegments(t *testing.T) {
	const items = 12
	o := openSegments(t, filepath.Join(t.TempDir(), "outbox"), items*recordOf, nil)
	add(t, o, ids(items)...)
	full := Item{"lead_xx", bodyOf("lead_xx")}
	if err := o.Append(t.Context(), full); !errors.Is(err, store.ErrLimit) {
		t.Errorf("beyond the bound: %v", err)
	}
	// One of each segment stays.
	if err := o.Remove(t.Context(), ids(items, 0, 4, 7, 11)...); err != nil {
		t.Fatal(err)
	}
	for i := range items - 4 {
		if err := o.Append(t.Context(), Item{fmt.Sprintf("more_%02d", i), bodyOf("lead_xx")}); err != nil {
			t.Fatalf("item %d: %v", i, err)
		}
	}
	if err := o.Append(t.Context(), full); !errors.Is(err, store.ErrLimit) || o.Len() != items {
		t.Errorf("beyond the bound: %v, %d wait", err, o.Len())
	}
}

// TestOpenOnAFullDisk opens an outbox on a disk that takes nothing: whole, cut
// short, and damaged. What is whole waits.
func TestOpenOnAFullDisk(t *testing.T) {
	for name, hurt := range map[string]func(t *testing.T, path string){
		"whole":     func(*testing.T, string) {},
		"cut short": func(t *testing.T, path string) { truncate(t, path+".3", 2*recordOf-5) },
		"zeros":     func(t *testing.T, path string) { truncate(t, path+".3", recordOf+preallocate) },
		"damaged":   func(t *testing.T, path string) { damage(t, path+".3", recordOf+recordHead) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "outbox")
			o := openSegments(t, path, 1<<20, nil)
			add(t, o, ids(12)...)
			if err := o.Remove(t.Context(), "lead_04"); err != nil {
				t.Fatal(err)
			}
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			truncate(t, path+".3", 2*recordOf)
			damaged := name == "damaged"
			if damaged {
				truncate(t, path+".3", 3*recordOf) // with a record of zeros
			}
			hurt(t, path)
			full := true
			disk := durabletest.New(t, dir)
			disk.Before(func(op durabletest.Op) error {
				if full && slices.Contains([]durabletest.Kind{durabletest.Write, durabletest.Make, durabletest.Link}, op.Kind) {
					return syscall.ENOSPC
				}
				return nil
			})
			o, err := Open(Config{Disk: durable.Disk{FS: disk}, Path: path, MaxBytes: 1 << 20, SegmentBytes: 3 * recordOf, Log: slog.New(slog.DiscardHandler), Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			want := ids(11, 4)
			if name == "cut short" || name == "damaged" {
				want = ids(10, 4)
			}
			expect(t, o, want...)
			if err := o.Append(t.Context(), Item{"lead_zz", bodyOf("lead_zz")}); err == nil {
				t.Error("accepted on a full disk")
			}
			expect(t, o, want...)
			full = false
			add(t, o, "lead_zz")
			expect(t, o, append(want, "lead_zz")...)
		})
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// TestSegmentsAtRandom holds an outbox against a list, with restarts.
func TestSegmentsAtRandom(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		path := filepath.Join(t.TempDir(), "outbox")
		room := int64(20+rng.IntN(40)) * recordOf
		o := openSegments(t, path, room, nil)
		var want []string
		for range 300 {
			id := fmt.Sprintf("lead_%02d", rng.IntN(100))
			switch n := rng.IntN(40); {
			case n == 0:
				if err := o.Close(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				o = openSegments(t, path, room, nil)
			case n == 1:
				if err := o.ask(t.Context(), job{task: o.upkeep}); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			case n < 20 && len(want) > 0:
				gone := want[:1+rng.IntN(min(len(want), 8))]
				if rng.IntN(2) == 0 {
					gone = []string{want[rng.IntN(len(want))]}
				}
				if err := o.Remove(t.Context(), gone...); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				gone = slices.Clone(gone)
				want = slices.DeleteFunc(want, func(id string) bool { return slices.Contains(gone, id) })
			case !slices.Contains(want, id):
				switch err := o.Append(t.Context(), Item{id, bodyOf(id)}); {
				case err == nil:
					want = append(want, id)
				case !errors.Is(err, store.ErrLimit) || len(want) < 8:
					t.Fatalf("seed %d: %d wait: %v", seed, len(want), err)
				}
			}
			if got := pending(t, o); !slices.Equal(got, want) || o.Len() != len(want) {
				t.Fatalf("seed %d: %v wait, want %v", seed, got, want)
			}
		}
		_ = o.Close()
	}
}
