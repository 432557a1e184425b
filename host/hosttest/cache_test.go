package hosttest_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/host/compilecache"
	"partneredge/host/engine"
	"partneredge/host/memory"
	"partneredge/host/wazero"
)

// smallModule has one function, () -> i32, which returns 7, and a memory as package
// prepare exports it.
var smallModule = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x04\x01\x01\x01\x01" +
	"\x07\x13\x02\x0bedge.memory\x02\x00\x01f\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x07\x0b")

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

// compileOnce compiles smallModule in a new engine, runs it, and returns what was logged.
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
	runSmall(t, code)
	if err := code.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := en.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")[:strings.Count(log.String(), "\n")]
}

// inTime is a call with time left.
type inTime struct{ context.Context }

func (inTime) TimeLeft() time.Duration { return time.Minute }

// runSmall checks what the function of smallModule returns.
func runSmall(t *testing.T, code engine.Code) {
	t.Helper()
	strategy, err := memory.Choose(memory.Auto)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := memory.New(64<<10, strategy)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Free()
	instance, err := code.Start(t.Context(), mem)
	if err != nil {
		t.Error(err)
		return
	}
	defer instance.Close(t.Context())
	stack := make([]uint64, 1)
	if err := instance.Function("f", nil, []engine.ValueType{engine.I32}).Call(inTime{t.Context()}, stack); err != nil || stack[0] != 7 {
		t.Errorf("it returns %d, %v", stack[0], err)
	}
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
	for _, e := range engines {
		for kind, damage := range kinds {
			t.Run(e.name+"/"+kind, func(t *testing.T) {
				dir := t.TempDir()
				if logged := compileOnce(t, e, dir); len(logged) != 0 {
					t.Errorf("a new cache: %q", logged)
				}
				whole := compiled(t, dir)
				if len(whole) == 0 {
					t.Fatal("no file in the cache")
				}
				for path := range whole {
					damage(t, path)
					if logged := compileOnce(t, e, dir); len(logged) != 1 || !strings.Contains(logged[0], "damaged, compiling it anew") {
						t.Errorf("%s is damaged: %q", path, logged)
					}
					if again := compiled(t, dir); !maps.EqualFunc(again, whole, bytes.Equal) {
						t.Errorf("the cache afterwards has %d files, not %d, or others", len(again), len(whole))
					}
					if logged := compileOnce(t, e, dir); len(logged) != 0 {
						t.Errorf("the cache afterwards: %q", logged)
					}
				}
			})
		}
	}
}

// TestLostFileOfCache: a module that is gone from the cache is compiled without a
// word, and its old sum does not count for the new file.
func TestLostFileOfCache(t *testing.T) {
	for _, e := range engines {
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

// TestOutdatedCache: where wazero has no use for what is kept, as on a processor of
// another kind, the module is compiled anew, and never run without its code.
func TestOutdatedCache(t *testing.T) {
	e := named{"wazero", wazero.New}
	for name, outdate := range map[string]func(path string) error{
		"another name":   func(path string) error { return move(path, path+"0") },
		"another folder": func(path string) error { return move(path, filepath.Join(filepath.Dir(path)+"0", "code")) },
		"not by wazero":  func(path string) error { return compilecache.WriteFile(path, []byte("not machine code")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			compileOnce(t, e, dir)
			whole := compiled(t, dir)
			for path := range whole {
				if filepath.Base(path) == "skeleton" {
					continue
				}
				if err := outdate(path); err != nil {
					t.Fatal(err)
				}
			}
			if logged := compileOnce(t, e, dir); len(logged) != 1 || !strings.Contains(logged[0], "compiling it anew") {
				t.Errorf("an outdated cache: %q", logged)
			}
			if again := compiled(t, dir); !maps.EqualFunc(again, whole, bytes.Equal) {
				t.Errorf("the cache afterwards has %d files, not %d, or others", len(again), len(whole))
			}
			if logged := compileOnce(t, e, dir); len(logged) != 0 {
				t.Errorf("the cache afterwards: %q", logged)
			}
		})
	}
}

// move moves a file of a cache, and its sum.
func move(from, to string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Rename(from, to),
		os.Rename(from+compilecache.SumSuffix, to+compilecache.SumSuffix))
}

// TestCacheOfMany: several processes that compile a module at once, some of which find
// it damaged, all run its own code, and leave a cache that is whole.
func TestCacheOfMany(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			for range 10 {
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() { compileOnce(t, e, dir) })
				}
				all.Wait()
				for path := range compiled(t, dir) {
					if err := os.Truncate(path, 3); err != nil {
						t.Fatal(err)
					}
				}
			}
			compileOnce(t, e, dir)
			if logged := compileOnce(t, e, dir); len(logged) != 0 {
				t.Errorf("the cache afterwards: %q", logged)
			}
		})
	}
}

// TestUselessCache: where nothing can be kept, modules are compiled all the same.
func TestUselessCache(t *testing.T) {
	for _, e := range engines {
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
