package local

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"partneredge/store/durable"
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
			f, err := openFile(durable.Disk{}, path, log, newClock().now())
			if err != nil {
				t.Fatal(err)
			}
			f.shrinkFrom = 0
			return f
		}
		// from is where the changes begin that a rewriting copies; the tree has
		// some of them already.
		from := func(f *file) int64 {
			if whole, err := os.ReadFile(f.path); err == nil {
				return int64(max(0, bytes.LastIndex(whole, []byte("*3\r\n$3\r\nset\r\n"))))
			}
			return 0
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
			case 1: // killed while the new file is written
				must(os.WriteFile(path+shrinking, appendCommand(nil, edit{key: "lost", value: "x"})[:i%20], 0o600))
				f = open(path)
			case 2: // killed before the new file is in place
				_, err := f.rewrite(f.logs[0], f.logs[0].size)
				must(err)
				f = open(path)
			case 3: // killed after that, with a change between
				_, err := f.rewrite(f.logs[0], from(f))
				must(err)
				want[key] = value(key, i)
				must(f.set(key, want[key]))
				must(os.Rename(path+shrinking, path))
				f = open(path)
			case 4:
				f.live = 0
				must(f.shrink())
			case 5:
				must(f.close())
				f = open(path)
			case 6: // killed
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

// A file of the layout before this one, with logs beside it, is as none.
func TestFileOfTheLayoutBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "[a", "db") // no pattern
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	row(t, path, 4)
	for _, name := range []string{path + "-1", path + "-12", path + shrinking} {
		write(t, name, []byte("*3"))
	}
	for _, name := range []string{path + "-", path + "-a", path + ".damaged-1"} {
		write(t, name, nil)
	}
	log, text := newLog()
	if got := contents(t, path, log); len(got) != 0 || text.lines() != 0 {
		t.Errorf("%d keys, log: %s", len(got), text)
	}
	left, err := fs.Glob(os.DirFS(filepath.Dir(path)), "db*")
	if err != nil || len(left) != 4 {
		t.Errorf("left: %v, %v", left, err)
	}
}
