package host

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"partneredge/host/compilecache"
	"partneredge/host/prepare"
)

// openIn opens a module in a new runtime with a cache, and returns what it answers, what
// was logged of the cache, and the error with which it was refused.
func openIn(t *testing.T, dir string, wasm []byte, limits Limits) (answer string, logged []string, refused error) {
	t.Helper()
	log := &LogBuffer{}
	r, err := New(t.Context(), Config{CacheDir: dir, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	m, refused := r.Open(t.Context(), wasm, Manifest{Name: "module"}, Capabilities{}, limits)
	if refused == nil {
		if answer, err = ask(m, "/", ""); err != nil {
			t.Error(err)
		}
		m.Close(context.Background())
	}
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, " in the cache ") || strings.Contains(line, " not kept") {
			logged = append(logged, line)
		}
	}
	return answer, logged, refused
}

// keptFiles lists the files of a cache, without sums.
func keptFiles(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, compilecache.SumSuffix) {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return paths
}

// rewrittenFile returns the one file of a rewritten module in a cache.
func rewrittenFile(t *testing.T, dir string) string {
	t.Helper()
	paths := keptFiles(t, filepath.Join(dir, "rewritten"))
	if len(paths) != 1 {
		t.Fatalf("kept of rewritten modules: %q", paths)
	}
	return paths[0]
}

func answeringNumber(n num) []byte { return assembled(answerWith(asm(n)), nil) }

// TestOpenFromCache holds that a module answers the same, whatever has become of what
// its cache held, and that the next start finds the cache whole.
func TestOpenFromCache(t *testing.T) {
	wasm := answeringNumber(7)
	for _, tt := range []struct {
		name   string
		change func(dir string) error
		logged string // "": nothing
	}{
		{"as it was", func(string) error { return nil }, ""},
		{"a damaged module", func(dir string) error { return os.Truncate(rewrittenFile(t, dir), 20) }, "rewritten module in the cache is damaged, rewriting it anew"},
		{"a module without a sum", func(dir string) error { return os.Remove(rewrittenFile(t, dir) + compilecache.SumSuffix) }, "is damaged"},
		{"no module", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "rewritten")) }, ""},
		{"no code", func(dir string) error {
			module, err := os.ReadFile(rewrittenFile(t, dir))
			return errors.Join(err, removeAllIn(dir), compilecache.WriteFile(filepath.Join(dir, "rewritten", "other"), module))
		}, ""},
		{"module without its code", func(dir string) error {
			path := rewrittenFile(t, dir)
			module, err := os.ReadFile(path)
			return errors.Join(err, removeAllIn(dir), compilecache.WriteFile(path, module))
		}, ""},
		{"nothing", removeAllIn, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			want, logged, refused := openIn(t, dir, wasm, Limits{})
			if refused != nil || len(logged) != 0 {
				t.Fatalf("a new cache: %v, %q", refused, logged)
			}
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			got, logged, refused := openIn(t, dir, wasm, Limits{})
			if refused != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, refused, want)
			}
			if len(logged) > 1 || strings.Join(logged, "") == "" != (tt.logged == "") || !strings.Contains(strings.Join(logged, ""), tt.logged) {
				t.Errorf("logged %q, want %q", logged, tt.logged)
			}
			if got, logged, refused = openIn(t, dir, wasm, Limits{}); got != want || refused != nil || len(logged) != 0 {
				t.Errorf("then %q, %v, %q", got, refused, logged)
			}
		})
	}
}

// removeAllIn removes what a directory holds.
func removeAllIn(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// TestOpenUsesCache shows that a module which is kept is not rewritten: what is kept of
// another, put in its place, is what answers.
func TestOpenUsesCache(t *testing.T) {
	seven, eight, dir := answeringNumber(7), answeringNumber(8), t.TempDir()
	openIn(t, dir, seven, Limits{})
	of7 := rewrittenFile(t, dir)
	want, _, _ := openIn(t, dir, eight, Limits{})
	for _, path := range keptFiles(t, filepath.Join(dir, "rewritten")) {
		if text, err := os.ReadFile(path); err != nil || path != of7 && compilecache.WriteFile(of7, text) != nil {
			t.Fatal(err)
		}
	}
	if got, logged, refused := openIn(t, dir, seven, Limits{}); got != want || refused != nil || len(logged) != 0 {
		t.Errorf("got %q, %v, %q, want %q", got, refused, logged, want)
	}
}

// TestOpenWithFullCache holds that a module is opened where the cache takes no file.
func TestOpenWithFullCache(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rewritten"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want, _, _ := openIn(t, t.TempDir(), answeringNumber(7), Limits{})
	for range 2 {
		if got, logged, refused := openIn(t, dir, answeringNumber(7), Limits{}); got != want || refused != nil ||
			len(logged) != 1 || !strings.Contains(logged[0], "rewritten module not kept") {
			t.Errorf("got %q, %v, %q, want %q", got, refused, logged, want)
		}
	}
}

// TestRefusedAgain holds that a module which is refused leaves nothing in the cache that
// would let it, or one like it, pass the next time: the reason stays the same.
func TestRefusedAgain(t *testing.T) {
	good := answeringNumber(7)
	small := Limits{Memory: prepare.PageSize}
	for _, tt := range []struct {
		name   string
		wasm   []byte
		limits Limits
		want   string
		none   bool // nothing is kept of it
	}{
		{"an opcode", assembled(asm(0x12, 0), nil), Limits{}, "tail call", true},
		{"a type", assembled(asm(0x42, 0, 0x6a, 0x1a), nil), Limits{}, "compile module", true},
		{"an import", []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x02\x0a\x01\x03env\x02fn\x00\x00"), Limits{}, "env.fn", true},
		{"memory", good, small, "more than its limit", true},
		{"a trap at the start", assembled(answerWith(asm(num(0))), asm(0x00)), Limits{}, "trap", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, _, first := openIn(t, dir, tt.wasm, tt.limits)
			if first == nil || !strings.Contains(first.Error(), tt.want) {
				t.Fatalf("got %v, want %q", first, tt.want)
			}
			if files := keptFiles(t, dir); tt.none && len(files) != 0 {
				t.Errorf("kept: %q", files)
			}
			if _, _, again := openIn(t, dir, tt.wasm, tt.limits); again == nil || again.Error() != first.Error() {
				t.Errorf("then %v, not %v", again, first)
			}
		})
	}
	dir := t.TempDir()
	if _, _, refused := openIn(t, dir, good, Limits{}); refused != nil {
		t.Fatal(refused)
	}
	_, _, want := openIn(t, t.TempDir(), good, small)
	if _, _, got := openIn(t, dir, good, small); got == nil || got.Error() != want.Error() {
		t.Errorf("kept, then opened with a lower limit: %v, want %v", got, want)
	}
}

// TestKeptWithoutFuel holds that what was kept of a module which may compute for ever is
// not what runs where it may not.
func TestKeptWithoutFuel(t *testing.T) {
	dir := t.TempDir()
	wasm := assembled(asm(whenLong(asm(0x03, 0x40, 0x0c, 0, 0x0b)), answerWith(asm(num(7)))), nil)
	if _, _, refused := openIn(t, dir, wasm, Limits{CPU: -1}); refused != nil {
		t.Fatal(refused)
	}
	r, err := New(t.Context(), Config{CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(context.Background()) }()
	m, err := r.Open(t.Context(), wasm, Manifest{Name: "module"}, Capabilities{}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(m, "/", long); ReasonOf(err) != CPUDeadline {
		t.Errorf("an endless loop ended with %v", err)
	}
}

// TestOpenTogether holds that runtimes which share a new cache open a module at once.
func TestOpenTogether(t *testing.T) {
	dir, wasm := t.TempDir(), answeringNumber(7)
	want, _, _ := openIn(t, t.TempDir(), wasm, Limits{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				if got, logged, refused := openIn(t, dir, wasm, Limits{}); got != want || refused != nil || len(logged) != 0 {
					t.Errorf("got %q, %v, %q, want %q", got, refused, logged, want)
				}
			}
		})
	}
	all.Wait()
}
