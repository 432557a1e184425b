package prepare

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"

	"partneredge/host/compilecache"
)

// TestCacheOfCorpus holds that a cache gives back what Rewrite made, but for the code.
func TestCacheOfCorpus(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "rewritten")}
	segments := 0
	for name, wasm := range corpus(t) {
		want, err := Rewrite(wasm, Options{})
		if err != nil {
			continue
		}
		sum := sha256.Sum256(wasm)
		if err := c.Keep(want, sum, Options{}); err != nil {
			t.Fatal(err)
		}
		got, err := c.Load(wasm, sum, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want.Sum, want.Wasm = sha256.Sum256(want.Wasm), nil; len(want.Data) == 0 {
			want.Data, got.Data = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: loaded %+v, want %+v", name, got, want)
		}
		segments += len(got.Data)
	}
	if segments < 100 {
		t.Errorf("only %d segments", segments)
	}
}

// kept keeps a module with one segment, and returns its file.
func kept(t *testing.T) (c Cache, wasm []byte, sum [sha256.Size]byte, path string) {
	t.Helper()
	c = Cache{Dir: t.TempDir()}
	wasm = generate([]byte("a module"))
	sum = sha256.Sum256(wasm)
	m, err := Rewrite(wasm, Options{})
	if err == nil {
		err = c.Keep(m, sum, Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	path = c.path(sum, Options{})
	if _, err := c.Load(wasm, sum, Options{}); err != nil {
		t.Fatal(err)
	}
	return c, wasm, sum, path
}

// TestCacheOfOthers holds that nothing is loaded for other options, or by a program with
// another rewrite.
func TestCacheOfOthers(t *testing.T) {
	c, wasm, sum, _ := kept(t)
	for _, options := range []Options{{WithoutFuel: true}, {ImportGrow: true}, {exactFuel: true}} {
		if _, err := c.Load(wasm, sum, options); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", options, err)
		}
	}
	if _, err := c.Load(wasm, sha256.Sum256([]byte("another")), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of another module: %v", err)
	}
	before := version
	defer func() { version = before }()
	version = func() string { return "another" }
	if _, err := c.Load(wasm, sum, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of another version: %v", err)
	}
}

// TestVersion holds that the version hangs on each file that is built.
func TestVersion(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		onDisk, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if embedded, err := source.ReadFile(file); err != nil || !slices.Equal(embedded, onDisk) {
			t.Errorf("%s is not part of the version: %v", file, err)
		}
	}
}

// TestCacheDamaged holds that whatever is damaged is refused and removed.
func TestCacheDamaged(t *testing.T) {
	for name, damage := range map[string]func(text []byte, path string) error{
		"a bit":       func(text []byte, path string) error { text[40] ^= 1; return os.WriteFile(path, text, 0o600) },
		"half":        func(text []byte, path string) error { return os.Truncate(path, int64(len(text)/2)) },
		"empty":       func(_ []byte, path string) error { return os.Truncate(path, 0) },
		"no sum":      func(_ []byte, path string) error { return os.Remove(path + compilecache.SumSuffix) },
		"a directory": func(_ []byte, path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		// What follows has a sum that fits.
		"a half module": func(text []byte, path string) error { return compilecache.WriteFile(path, text[:len(text)-1]) },
		"more":          func(text []byte, path string) error { return compilecache.WriteFile(path, append(text, 0)) },
		"outside": func(_ []byte, path string) error {
			m := &Module{Pages: 1, Data: []Segment{{Offset: 0, Bytes: make([]byte, 9), at: 1 << 20}}}
			return compilecache.WriteFile(path, m.appendKept(nil))
		},
		"outside memory": func(_ []byte, path string) error {
			m := &Module{Pages: 1, Data: []Segment{{Offset: PageSize - 1, Bytes: make([]byte, 2), at: 0}}}
			return compilecache.WriteFile(path, m.appendKept(nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, wasm, sum, path := kept(t)
			text, err := os.ReadFile(path)
			if err == nil {
				err = damage(text, path)
			}
			if err != nil {
				t.Fatal(err)
			}
			if m, err := c.Load(wasm, sum, Options{}); !errors.Is(err, compilecache.ErrDamaged) {
				t.Errorf("got %+v, %v", m, err)
			}
			if _, err := c.Load(wasm, sum, Options{}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("then %v", err)
			}
		})
	}
}

// FuzzKept: nothing that lies in a cache makes it panic, or refer to what is not there.
func FuzzKept(f *testing.F) {
	wasm := generate([]byte("a module"))
	m, err := Rewrite(wasm, Options{})
	if err != nil {
		f.Fatal(err)
	}
	text := m.appendKept(nil)
	for n := range text {
		f.Add(text[:n])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseKept(text, wasm)
		if err != nil {
			return
		}
		for _, d := range m.Data {
			if uint64(d.Offset)+uint64(len(d.Bytes)) > uint64(m.Pages)*PageSize {
				t.Errorf("a segment of %d bytes at %d in %d pages", len(d.Bytes), d.Offset, m.Pages)
			}
		}
	})
}

// TestCacheTogether holds that those who keep and load a module at once find it whole,
// or not at all.
func TestCacheTogether(t *testing.T) {
	c := Cache{Dir: filepath.Join(t.TempDir(), "rewritten")}
	wasm := generate([]byte("a module"))
	sum := sha256.Sum256(wasm)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			m, err := Rewrite(wasm, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			for range 50 {
				if err := c.Keep(m, sum, Options{}); err != nil {
					t.Error(err)
				}
				if got, err := c.Load(wasm, sum, Options{}); err == nil && got.Sum != sha256.Sum256(m.Wasm) {
					t.Errorf("got %+v", got)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, err := c.Load(wasm, sum, Options{}); err != nil {
		t.Error(err)
	}
}
