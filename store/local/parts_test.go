package local

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

func value(key string, n int) string { return seal(key, putInt(newValue(8), int64(n))) }

// A file is what it was told, whatever is rewritten meanwhile, however often it
// is opened again, and at whatever moment its process is killed.
func TestFileIsWhatItWasTold(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		path := filepath.Join(dir, fmt.Sprint(run), "db")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		log, text := newLog()
		open := func(path string) *file {
			f, err := openFile(path, log, newClock().now())
			if err != nil {
				t.Fatal(err)
			}
			f.worth = 0
			return f
		}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		f := open(path)
		want := map[string]string{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			key := fmt.Sprintf("k%d", rapid.IntRange(0, 5).Draw(t, "key"))
			switch rapid.IntRange(0, 8).Draw(t, "do") {
			case 0:
				delete(want, key)
				must(f.remove(key))
			case 1:
				must(f.turn()) // killed before there is a base
			case 2:
				must(f.turn())
				must(f.rebase(f.part - 1)) // killed before the old logs are removed
			case 3:
				must(f.shrink())
			case 4:
				must(f.close())
				f = open(path)
			case 5:
				_ = f.log.Close() // killed
				f = open(path)
			case 6: // killed while the next log was begun
				must(os.WriteFile(f.logPath(f.part+1), appendHead(nil, f.size)[:i%20], 0o600))
				_ = f.log.Close()
				f = open(path)
			default:
				want[key] = value(key, i)
				must(f.set(key, want[key]))
			}
			got := map[string]string{}
			must(f.each("", "", func(k, v string) bool { got[k] = v; return true }))
			if !maps.Equal(got, want) {
				t.Fatalf("step %d: %d keys, want %d", i, len(got), len(want))
			}
		}
		must(f.close())
		if text.lines() > 0 {
			t.Fatalf("damage where there is none: %s", text)
		}
	})
}

// A log that lost its end takes those after it with it: together they would be
// a state that never was.
func TestLogCutAtEveryByteWithAnotherBehind(t *testing.T) {
	dir := t.TempDir()
	f := mustFile(t, filepath.Join(dir, "db"))
	var ends []int64
	for i := range 4 {
		if i == 3 {
			if err := f.turn(); err != nil {
				t.Fatal(err)
			}
		}
		key := fmt.Sprintf("k%d", i)
		if err := f.set(key, value(key, i)); err != nil {
			t.Fatal(err)
		}
		if f.part == 1 {
			ends = append(ends, f.size)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	size := ends[len(ends)-1]
	for cut := range size + 1 {
		copied := filepath.Join(t.TempDir(), "db")
		if err := os.CopyFS(filepath.Dir(copied), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(copied+"-1", cut); err != nil {
			t.Fatal(err)
		}
		log, text := newLog()
		want := 4
		if cut < size {
			for want = 0; ends[want] <= cut; want++ {
			}
		}
		got := contents(t, copied, log)
		if len(got) != want {
			t.Fatalf("cut to %d of %d bytes: %d keys, want %d", cut, size, len(got), want)
		}
		if aside, _ := filepath.Glob(copied + "-2.damaged-*"); (len(aside) == 1) != (cut < size) || text.lines() != len(aside) {
			t.Fatalf("cut to %d of %d bytes: set aside %v; %s", cut, size, aside, text)
		}
		if again := contents(t, copied, log); len(again) != want || text.lines() > 1 {
			t.Fatalf("opened again: %d keys, want %d; %s", len(again), want, text)
		}
	}
}
