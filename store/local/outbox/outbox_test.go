package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/durable"
	"partneredge/store/logtest"
)

func openBox(t *testing.T, path string, room int64, log *slog.Logger) *Outbox {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	o, err := Open(Config{Path: path, RejectedPath: path + ".rejected", MaxBytes: room, Log: log, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

// newLog returns a log and the text that is written to it.
func add(t *testing.T, o *Outbox, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := o.Append(t.Context(), Item{id, bodyOf(id)}); err != nil {
			t.Fatal(err)
		}
	}
}

func bodyOf(id string) []byte { return []byte(`{"id":"` + id + `"}`) }

// ids that wait, each with the body it came with.
func pending(t *testing.T, o *Outbox) []string {
	t.Helper()
	items, err := o.Pending(1<<20, 1<<30, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, it := range items {
		if !bytes.Equal(it.Body, bodyOf(it.ID)) {
			t.Fatalf("%s has body %q", it.ID, it.Body)
		}
		ids = append(ids, it.ID)
	}
	return ids
}

func expect(t *testing.T, o *Outbox, want ...string) {
	t.Helper()
	if got := pending(t, o); fmt.Sprint(got) != fmt.Sprint(want) || o.Len() != len(want) {
		t.Fatalf("%v wait, want %v", got, want)
	}
}

func TestOutboxKeepsOrderAndForgetsWhatIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openBox(t, path, 1<<20, nil)
	add(t, o, "lead_c", "lead_a", "lead_b")
	<-o.Wake()
	expect(t, o, "lead_c", "lead_a", "lead_b")
	if err := o.Remove(t.Context(), "lead_a", "lead_unknown"); err != nil {
		t.Fatal(err)
	}
	expect(t, o, "lead_c", "lead_b")
	if items, err := o.Pending(1, 1<<20, nil); err != nil || len(items) != 1 {
		t.Fatalf("at most one: %v, %v", items, err)
	}
	if items, err := o.Pending(9, 1, nil); err != nil || len(items) != 1 {
		t.Fatalf("one however large: %v, %v", items, err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
	if err := o.Append(t.Context(), Item{"lead_d", nil}); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	o = openBox(t, path, 1<<20, nil)
	<-o.Wake() // something waits from before
	expect(t, o, "lead_c", "lead_b")
}

func TestOutboxTakesAnIDOnce(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 1<<20, nil)
	add(t, o, "lead_a", "lead_a")
	expect(t, o, "lead_a")
	if err := o.Append(t.Context(), Item{"lead_a", bodyOf("lead_b")}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same id with another body: %v", err)
	}
	for _, bad := range []Item{{"", nil}, {strings.Repeat("x", 256), nil}, {"big", make([]byte, maxBody+1)}} {
		if err := o.Append(t.Context(), bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("id of %d, body of %d bytes: %v", len(bad.ID), len(bad.Body), err)
		}
	}
}

func TestOutboxFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	const room = 64 << 10
	o := openBox(t, path, room, nil)
	add(t, o, "lead_stays")
	for i := range 2000 {
		id := fmt.Sprintf("lead_%d", i)
		add(t, o, id)
		if err := o.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() > room {
		t.Fatalf("%d bytes, %v", info.Size(), err)
	}
	expect(t, o, "lead_stays")
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, openBox(t, path, room, nil), "lead_stays")
}

// TestMarksStaySmall: marks go with the items of which they are, when the file is emptied
// and when it is written anew.
func TestMarksStaySmall(t *testing.T) {
	for _, stay := range [][]string{nil, {"lead_stays"}} {
		path := filepath.Join(t.TempDir(), "outbox")
		o := openBox(t, path, 64<<10, nil)
		add(t, o, stay...)
		const items = 2000
		for i := range items {
			id := fmt.Sprintf("lead_%d", i)
			add(t, o, id)
			remove(t, o, id)
		}
		if info, err := os.Stat(path + goneSuffix); err == nil && info.Size() > items/2*markSize {
			t.Errorf("%d bytes of marks, while %v stay", info.Size(), stay)
		}
		expect(t, o, stay...)
		if len(stay) > 0 {
			continue
		}
		upkeep(t, o)
		if got := files(t, path); got != "outbox" {
			t.Errorf("emptied, there are %s", got)
		}
	}
}

func TestOutboxPreallocates(t *testing.T) {
	const room = preallocate + 100
	path := filepath.Join(t.TempDir(), "outbox")
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	o := openBox(t, path, room, nil)
	add(t, o, "lead_a")
	var one int64
	inWriter(t, o, func() { one = o.tail.end })
	if got := size(); got != one+preallocate {
		t.Errorf("%d bytes after a record of %d", got, one)
	}
	add(t, o, "lead_b")
	if got := size(); got != one+preallocate {
		t.Errorf("%d bytes after a record that there was room for", got)
	}
	big := Item{"lead_big", make([]byte, preallocate-50)}
	if err := o.Append(t.Context(), big); err != nil {
		t.Fatal(err)
	}
	if got := size(); got != room {
		t.Errorf("%d bytes, where %d are the most", got, room)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := size(), 2*one+int64(recordHead+len(big.ID)+len(big.Body)); got != want {
		t.Errorf("%d bytes once closed, want %d", got, want)
	}
}

// TestOutboxPreallocatesMore: the more records there are, the more zeros are written at
// a time, up to a bound.
func TestOutboxPreallocatesMore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openBox(t, path, 1<<30, nil)
	var size int64
	var steps []int64 // of zeros, in units of preallocate, rounded up
	for n := range 60 {
		if err := o.Append(t.Context(), Item{fmt.Sprintf("lead_%02d", n), make([]byte, 100<<10)}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != size {
			size = info.Size()
			inWriter(t, o, func() { steps = append(steps, (size-o.tail.end+preallocate-1)/preallocate) })
		}
	}
	if want := []int64{1, 2, 3, 4, 4, 4, 4, 4}; !slices.Equal(steps, want) {
		t.Errorf("steps of %v, want %v", steps, want)
	}
}

// TestOutboxPreallocatesWhenNeeded: a record that ends with the file, or with the
// outbox's bound, adds nothing behind it.
func TestOutboxPreallocatesWhenNeeded(t *testing.T) {
	const first = recordHead + 1
	for room, want := range map[int64][]int64{1 << 20: {first + preallocate, first + preallocate}, first: {first}} {
		path := filepath.Join(t.TempDir(), "outbox")
		o := openBox(t, path, room, nil)
		for i, it := range []Item{{"a", nil}, {"b", make([]byte, preallocate-first)}}[:len(want)] {
			if err := o.Append(t.Context(), it); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Size() != want[i] {
				t.Errorf("%s: %d bytes, %v, want %d", it.ID, info.Size(), err, want[i])
			}
		}
	}
}

func TestOutboxFull(t *testing.T) {
	o := openBox(t, filepath.Join(t.TempDir(), "outbox"), 500, nil)
	n := 0
	for ; ; n++ {
		id := fmt.Sprintf("lead_%d", n)
		if err := o.Append(t.Context(), Item{id, bodyOf(id)}); errors.Is(err, store.ErrLimit) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	ids := pending(t, o)
	if n == 0 || len(ids) != n {
		t.Fatalf("%d accepted, %d wait", n, len(ids))
	}
	if err := o.Remove(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	add(t, o, "lead_again")
	expect(t, o, "lead_again")
}

// A disk that takes nothing: nothing is accepted, and it goes on when it does
// again.
func TestOutboxWithoutADiskToWriteTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	log, text := logtest.New()
	o := openBox(t, path, 1<<20, log)
	add(t, o, "lead_a")
	readOnly, err := durable.OS{}.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var good durable.File
	inWriter(t, o, func() {
		good = o.tail.f
		o.tail.f, o.tail.marks.f = readOnly, readOnly
	})
	if err := o.Append(t.Context(), Item{"lead_b", bodyOf("lead_b")}); err == nil {
		t.Fatal("accepted what was not written")
	}
	expect(t, o, "lead_a")
	if err := o.Remove(t.Context(), "lead_a"); err == nil {
		t.Error("no word that the removal is not on disk")
	}
	expect(t, o)
	inWriter(t, o, func() { o.tail.f, o.tail.marks.f = good, nil })
	_ = readOnly.Close()
	add(t, o, "lead_c")
	expect(t, o, "lead_c")
	if text.Lines() != 2 {
		t.Errorf("log: %s", text)
	}
	// A sync that failed: the next group goes to a new file.
	inWriter(t, o, func() { o.tail.broken = true })
	add(t, o, "lead_d")
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, openBox(t, path, 1<<20, nil), "lead_c", "lead_d")
}

func TestSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openBox(t, path, 1<<20, nil)
	add(t, o, "lead_a", "lead_b")
	items, err := o.Pending(1, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.SetAside(t.Context(), Refused{items[0], "unknown account"}); err != nil {
		t.Fatal(err)
	}
	expect(t, o, "lead_b")
	kept, err := os.ReadFile(path + ".rejected")
	if err != nil || !bytes.Contains(kept, bodyOf("lead_a")) || !bytes.Contains(kept, []byte(`"reason":"unknown account"`)) {
		t.Fatalf("%s, %v", kept, err)
	}
}

// TestRejected: what was set aside is read as it was, with lines that were cut or
// damaged, until it is removed.
func TestRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "outbox")
	o := openBox(t, path, 1<<20, nil)
	if err := o.RemoveRejected(nil); err != nil {
		t.Error(err)
	}
	want := []Item{{"lead_a", bodyOf("lead_a")}, {"lead_b", []byte("{\x00\n")}}
	for _, it := range want {
		if err := o.SetAside(t.Context(), Refused{it, "why"}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(path+".rejected", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	const torn = `{"id":"lead_c","bo`
	if _, err := f.WriteString(torn); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var got []Item
	for it, err := range o.Rejected() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, it.Item)
	}
	if len(got) != 3 || !reflect.DeepEqual(got[:2], want) || string(got[2].Body) != torn || !strings.HasPrefix(got[2].ID, "line_") {
		t.Errorf("read %q", got)
	}
	removeAside(t, o)
	if got := files(t, path); strings.Contains(got, "rejected") {
		t.Errorf("files %s", got)
	}
	for it := range o.Rejected() {
		t.Errorf("%q after all", it)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func removeGlob(t *testing.T, pattern string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			t.Fatal(err)
		}
	}
}
