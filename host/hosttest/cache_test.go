package hosttest_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"partneredge/host/compilecache"
	"partneredge/host/engine"
)

// smallModule has one function, () -> i32, which returns 7, and a memory.
var smallModule = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x04\x01\x01\x01\x01" +
	"\x07\x0e\x02\x06memory\x02\x00\x01f\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x07\x0b")

// compiled lists the files of a cache with their content, but no sums.
func compiled(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, compilecache.SumSuffix) {
			files[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// compileOnce compiles smallModule in a new engine and returns what was logged.
func compileOnce(t *testing.T, e named, dir string) (logged []string) {
	t.Helper()
	log := new(bytes.Buffer)
	en, err := e.new(t.Context(), engine.Config{CacheDir: dir, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	code, err := en.Compile(t.Context(), smallModule)
	if err != nil {
		t.Fatal(err)
	}
	if err := code.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := en.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")[:strings.Count(log.String(), "\n")]
}

// TestDamagedCache: whatever is damaged in a cache, the module is compiled, one
// line says so, and the next start finds the cache whole.
func TestDamagedCache(t *testing.T) {
	write := func(change func(content []byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			content, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, change(slices.Clone(content)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	must := func(t *testing.T, errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	kinds := map[string]func(t *testing.T, path string){
		"half":    write(func(b []byte) []byte { return b[:len(b)/2] }),
		"longer":  write(func(b []byte) []byte { return append(b, 0) }),
		"empty":   write(func([]byte) []byte { return nil }),
		"garbage": write(func(b []byte) []byte { return bytes.Repeat([]byte{0xa5}, len(b)) }),
		// Of wazero's file, the byte is in the count of functions, which no sum of its covers.
		"a bit":        write(func(b []byte) []byte { b[20] ^= 0x40; return b }),
		"the last bit": write(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }),
		"a directory": func(t *testing.T, path string) {
			must(t, os.Remove(path), os.MkdirAll(filepath.Join(path, "x"), 0o700))
		},
		"no sum":     func(t *testing.T, path string) { must(t, os.Remove(path+compilecache.SumSuffix)) },
		"half a sum": func(t *testing.T, path string) { must(t, os.Truncate(path+compilecache.SumSuffix, 32)) },
	}
	for _, e := range engines() {
		for kind, damage := range kinds {
			t.Run(e.name+"/"+kind, func(t *testing.T) {
				dir := t.TempDir()
				if logged := compileOnce(t, e, dir); len(logged) != 0 {
					t.Errorf("a new cache: %q", logged)
				}
				whole := compiled(t, dir)
				if len(whole) != 1 {
					t.Fatalf("%d files in the cache", len(whole))
				}
				for path := range whole {
					damage(t, path)
				}
				if logged := compileOnce(t, e, dir); len(logged) != 1 || !strings.Contains(logged[0], "damaged, compiling it anew") {
					t.Errorf("a damaged cache: %q", logged)
				}
				if again := compiled(t, dir); len(again) != 1 {
					t.Errorf("%d files in the cache afterwards", len(again))
				}
				if logged := compileOnce(t, e, dir); len(logged) != 0 {
					t.Errorf("the cache afterwards: %q", logged)
				}
			})
		}
	}
}

// TestLostFileOfCache: a module that is gone from the cache is compiled without a
// word, and its old sum does not count for the new file.
func TestLostFileOfCache(t *testing.T) {
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			compileOnce(t, e, dir)
			for path := range compiled(t, dir) {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path+compilecache.SumSuffix, []byte("of another file"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if logged := compileOnce(t, e, dir); len(logged) != 0 {
					t.Errorf("%q", logged)
				}
			}
		})
	}
}

// TestUselessCache: where nothing can be kept, modules are compiled all the same.
func TestUselessCache(t *testing.T) {
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			compileOnce(t, e, dir)
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Fatalf("%v, %v", entries, err)
			}
			inTheWay := filepath.Join(dir, entries[0].Name())
			if err := os.RemoveAll(inTheWay); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if logged := compileOnce(t, e, dir); len(logged) != 1 {
				t.Errorf("%q", logged)
			}
		})
	}
}
