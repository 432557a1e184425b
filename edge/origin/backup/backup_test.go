package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func made(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	var b bytes.Buffer
	a, err := NewWriter(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range contents {
		from := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(from, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := a.File(name, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var contents = map[string]string{"admin.token": "secret", "nats/operator.seed": "seed", "releases/blobs/sha256/ab": "blob"}

// holds reports whether dir has exactly the files of made.
func holds(t testing.TB, dir string) bool {
	t.Helper()
	for name, want := range contents {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			return false
		}
	}
	left, err := os.ReadDir(dir)
	return err == nil && len(left) == len(contents)
}

func TestWriteAndRead(t *testing.T) {
	dir := t.TempDir()
	if err := Read(bytes.NewReader(made(t)), dir); err != nil {
		t.Fatal(err)
	}
	if !holds(t, dir) {
		t.Error("what was read is not what was written")
	}
	for name := range contents {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v: others can read it", name, info, err)
		}
	}
}

// TestIs: a backup is known by its beginning, and nothing else is taken for one.
func TestIs(t *testing.T) {
	whole := made(t)
	file := filepath.Join(t.TempDir(), "file")
	for name, tt := range map[string]struct {
		content []byte
		want    bool
	}{
		"a backup":      {whole, true},
		"nothing":       {nil, false},
		"a key":         {[]byte("k1:5e5e\n"), false},
		"a gzip's head": {whole[:10], false},
		"another tar":   {entries(t, tar.Header{Name: "a", Typeflag: tar.TypeReg}), false},
	} {
		if err := os.WriteFile(file, tt.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if is, err := Is(file); err != nil || is != tt.want {
			t.Errorf("%s: %v, %v", name, is, err)
		}
	}
	if _, err := Is(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there: no error")
	}
}

// TestCut checks that Read refuses every beginning of a backup, and backups with a
// flipped bit.
func TestCut(t *testing.T) {
	whole := made(t)
	for n := 0; n < len(whole); n += 5 {
		if err := Read(bytes.NewReader(whole[:n]), t.TempDir()); !errors.Is(err, ErrNoArchive) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for i := 10; i < len(whole); i++ { // the gzip header has 10 bytes
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		dir := t.TempDir()
		err := Read(bytes.NewReader(flipped), dir)
		if !errors.Is(err, ErrNoArchive) && (err != nil || !holds(t, dir)) { // some bits mean nothing
			t.Errorf("byte %d flipped: %v", i, err)
		}
	}
}

// entries returns an archive of any entries.
func entries(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range headers {
		content := []byte("x")
		if h.Name == mark {
			content = []byte(format)
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadRefuses(t *testing.T) {
	first := tar.Header{Name: mark, Typeflag: tar.TypeReg}
	for name, archive := range map[string][]byte{
		"nothing":              nil,
		"an empty tar":         entries(t),
		"another tar":          entries(t, tar.Header{Name: "a", Typeflag: tar.TypeReg}),
		"a way out":            entries(t, first, tar.Header{Name: "../out", Typeflag: tar.TypeReg}),
		"a way out, hidden":    entries(t, first, tar.Header{Name: "a/../../out", Typeflag: tar.TypeReg}),
		"an absolute name":     entries(t, first, tar.Header{Name: "/out", Typeflag: tar.TypeReg}),
		"a link":               entries(t, first, tar.Header{Name: "a", Linkname: "/", Typeflag: tar.TypeSymlink}),
		"the same name twice":  entries(t, first, tar.Header{Name: "a", Typeflag: tar.TypeReg}, tar.Header{Name: "a", Typeflag: tar.TypeReg}),
		"a file where it goes": entries(t, first, tar.Header{Name: "a", Typeflag: tar.TypeReg}, tar.Header{Name: "a/b", Typeflag: tar.TypeReg}),
	} {
		outer := t.TempDir()
		dir := filepath.Join(outer, "dir")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := Read(bytes.NewReader(archive), dir); err == nil {
			t.Errorf("%s was read", name)
		}
		if left, _ := os.ReadDir(outer); len(left) != 1 {
			t.Errorf("%s wrote %v", name, left)
		}
	}
}

// FuzzRead checks that no archive makes Read write outside dir.
func FuzzRead(f *testing.F) {
	f.Add(made(f))
	first := tar.Header{Name: mark, Typeflag: tar.TypeReg}
	f.Add(entries(f, first, tar.Header{Name: "../out", Typeflag: tar.TypeReg}))
	f.Add(entries(f, first, tar.Header{Name: "a", Linkname: "..", Typeflag: tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "dir")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = Read(bytes.NewReader(archive), dir)
		if left, err := os.ReadDir(outer); err != nil || len(left) != 1 {
			t.Errorf("wrote %v, %v", left, err)
		}
	})
}
