package wazero

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"partneredge/edge/disktest"
	"partneredge/host/compilecache"
	"partneredge/host/engine"
	"partneredge/host/wasmtest"
)

// settling is an engine, the one module that is open in it, and what it logs.
type settling struct {
	engine engine.Engine
	code   *code
	log    *bytes.Buffer
}

// openInFolder compiles a module of some pages of machine code, or loads it.
func openInFolder(t *testing.T, dir string) settling {
	t.Helper()
	log := &bytes.Buffer{}
	e, err := New(t.Context(), engine.Config{CacheDir: dir, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(t.Context()) })
	return settling{e, compile(t, e, 500), log}
}

// compile compiles a module of some functions, or loads it.
func compile(t *testing.T, e engine.Engine, functions int) *code {
	t.Helper()
	types, bodies := make([][]byte, functions), make([][]byte, functions)
	for i := range functions {
		types[i], bodies[i] = []byte{0}, wasmtest.Function([]byte{0}, wasmtest.I32(int64(i)))
	}
	opened, err := e.Compile(t.Context(), wasmtest.Module(
		wasmtest.Section(1, []byte{0x60, 0, 1, 0x7f}), wasmtest.Section(3, types...), wasmtest.Section(10, bodies...)))
	if err != nil {
		t.Fatal(err)
	}
	return opened.(*code)
}

// executable returns the module's machine code.
func (s settling) executable(t *testing.T) []byte {
	t.Helper()
	executable, ok := machineCodeOf(s.code.compiled)
	if !ok || len(executable) < 3*os.Getpagesize() {
		t.Fatalf("%d bytes of machine code found (%t): does this wazero keep it elsewhere?", len(executable), ok)
	}
	return executable
}

// files returns the files that memory is mapped from, "" for none, page by page.
func files(t *testing.T, memory []byte) (paths []string) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(memory); at += os.Getpagesize() {
		address := uint64(uintptr(unsafe.Pointer(&memory[at])))
		for line := range strings.Lines(string(maps)) {
			var from, to uint64
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				t.Fatal(err)
			}
			if from <= address && address < to {
				fields := strings.Fields(line)
				if fields[1] != "r-xp" {
					t.Errorf("machine code is mapped %s", fields[1])
				}
				paths = append(paths, strings.Join(fields[5:], " "))
			}
		}
	}
	if want := (len(memory) + os.Getpagesize() - 1) / os.Getpagesize(); len(paths) != want {
		t.Fatalf("%d pages of %d are mapped", len(paths), want)
	}
	return slices.Compact(paths)
}

// TestSettle holds that machine code is the same afterwards, and comes from a file that
// holds it and that nobody else can write to, or stays where it was.
func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir, path string, executable []byte)
		logged string // "": it is mapped
	}{
		{"no file", func(*testing.T, string, string, []byte) {}, ""},
		{"other code", func(t *testing.T, _, path string, executable []byte) {
			other := slices.Clone(executable)
			other[len(other)-1] ^= 1
			write(t, path, other, 0o400)
		}, ""},
		{"a part of it", func(t *testing.T, _, path string, executable []byte) { write(t, path, executable[:100], 0o400) }, ""},
		{"more", func(t *testing.T, _, path string, executable []byte) {
			write(t, path, append(slices.Clone(executable), 0), 0o400)
		}, ""},
		{"a file of others", func(t *testing.T, _, path string, executable []byte) { write(t, path, executable, 0o666) }, "may be written to by other users"},
		{"a folder", func(t *testing.T, _, path string, _ []byte) {
			if err := os.MkdirAll(filepath.Join(path, "folder"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "file exists"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openInFolder(t, dir)
			executable := s.executable(t)
			before := slices.Clone(executable)
			if got := files(t, executable); !slices.Equal(got, []string{""}) {
				t.Fatalf("at first it is mapped from %q", got)
			}
			path := filepath.Join(s.code.dir, codeFile)
			tt.change(t, dir, path, executable)
			s.engine.Settle(t.Context())
			s.engine.Settle(t.Context())
			want := path
			if tt.logged != "" {
				want = ""
			}
			if got := files(t, executable); !slices.Equal(got, []string{want}) {
				t.Errorf("it is mapped from %q, want %q", got, want)
			}
			if !bytes.Equal(executable, before) {
				t.Error("it is other code now")
			}
			if lines := strings.Count(s.log.String(), "\n"); lines != 1 || !strings.Contains(s.log.String(), tt.logged) {
				t.Errorf("logged: %s", s.log)
			}
			if left, err := filepath.Glob(filepath.Join(s.code.dir, "part*")); err != nil || len(left) != 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}

func write(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, content, 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

// TestSettleAgain holds that the file is written once, and that nothing is moved that is
// not open.
func TestSettleAgain(t *testing.T) {
	dir := t.TempDir()
	closed := openInFolder(t, dir)
	path := filepath.Join(closed.code.dir, codeFile)
	if err := closed.code.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed.engine.Settle(t.Context())
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a module that is closed: %v", err)
	}
	var wrote os.FileInfo
	for range 2 {
		s := openInFolder(t, dir)
		s.engine.Settle(t.Context())
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o400 || compilecache.Check(path) != nil {
			t.Errorf("the file has mode %v", info.Mode())
		}
		if wrote != nil && !os.SameFile(info, wrote) {
			t.Error("it was written again")
		}
		wrote = info
		if got := files(t, s.executable(t)); !slices.Equal(got, []string{path}) {
			t.Errorf("it is mapped from %q", got)
		}
	}
}

// anyRoom has the engine write to any disk.
func anyRoom(s settling) {
	s.engine.(*wazeroEngine).free = func(string) (int64, error) { return math.MaxInt64, nil }
}

// TestSettleLeavesRoom holds that nothing is written to a disk that would have too little
// left for others, and that it is tried again once there is enough.
func TestSettleLeavesRoom(t *testing.T) {
	s := openInFolder(t, disktest.Small(t, "2m"))
	executable, path := s.executable(t), filepath.Join(s.code.dir, codeFile)
	e := s.engine.(*wazeroEngine)
	room := func(free int64) func(string) (int64, error) {
		return func(dir string) (int64, error) {
			if dir != s.code.dir {
				t.Errorf("asked for room in %s", dir)
			}
			return free, nil
		}
	}
	enough := int64(len(executable)) + 64<<20
	for n, free := range []func(string) (int64, error){e.free, room(enough - 1)} {
		e.free = free
		s.engine.Settle(t.Context())
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the file has the error %v", err)
		}
		if lines := strings.Count(s.log.String(), "\n"); lines != n+1 || strings.Count(s.log.String(), errNoRoom.Error()) != lines {
			t.Errorf("logged: %s", s.log)
		}
	}
	e.free = room(enough)
	s.engine.Settle(t.Context())
	if got := files(t, executable); !slices.Equal(got, []string{path}) {
		t.Errorf("with room it is mapped from %q", got)
	}
}

// TestSettleFullDisk holds that a full disk is tried again each time, with a line in the log.
func TestSettleFullDisk(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, path string, executable []byte)
	}{
		{"no file", func(*testing.T, string, []byte) {}},
		// Through a mapping it cannot be read, since tmpfs has no page to give.
		{"a file of a hole", func(t *testing.T, path string, executable []byte) {
			write(t, path, nil, 0o600)
			if err := errors.Join(os.Truncate(path, int64(len(executable))), os.Chmod(path, 0o400)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := disktest.Small(t, "1m")
			s := openInFolder(t, dir)
			anyRoom(s)
			executable, path := s.executable(t), filepath.Join(s.code.dir, codeFile)
			tt.change(t, path, executable)
			free := disktest.Fill(t, dir)
			for n := range 2 {
				s.engine.Settle(t.Context())
				if got := files(t, executable); !slices.Equal(got, []string{""}) {
					t.Errorf("it is mapped from %q", got)
				}
				if lines := strings.Count(s.log.String(), "\n"); lines != n+1 || strings.Count(s.log.String(), "no space left on device") != lines {
					t.Errorf("logged: %s", s.log)
				}
			}
			free()
			s.engine.Settle(t.Context())
			if got := files(t, executable); !slices.Equal(got, []string{path}) {
				t.Errorf("with room it is mapped from %q", got)
			}
		})
	}
}

// TestSettleGoesOn holds that other modules are mapped where one cannot be.
func TestSettleGoesOn(t *testing.T) {
	s := openInFolder(t, t.TempDir())
	write(t, filepath.Join(s.code.dir, codeFile), s.executable(t), 0o666)
	var others []*code
	for n := range 8 {
		others = append(others, compile(t, s.engine, 10+n))
	}
	s.engine.Settle(t.Context())
	for _, c := range others {
		if _, err := os.Stat(filepath.Join(c.dir, codeFile)); err != nil {
			t.Error(err)
		}
	}
	if lines := strings.Count(s.log.String(), "\n"); lines != 1 || !strings.Contains(s.log.String(), "modules_mapped=8 ") {
		t.Errorf("logged: %s", s.log)
	}
}

// TestSettleRefused holds that a file system which no code may be mapped from is tried
// once, and that no file is left there.
func TestSettleRefused(t *testing.T) {
	dir := disktest.Small(t, "1m")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	s := openInFolder(t, dir)
	anyRoom(s)
	opened := []*code{s.code, compile(t, s.engine, 10)}
	for range 2 {
		s.engine.Settle(t.Context())
		for _, c := range opened {
			if _, err := os.Stat(filepath.Join(c.dir, codeFile)); !os.IsNotExist(err) {
				t.Errorf("the file of machine code has the error %v", err)
			}
		}
		opened = append(opened, compile(t, s.engine, 20))
	}
	if got := files(t, s.executable(t)); !slices.Equal(got, []string{""}) {
		t.Errorf("it is mapped from %q", got)
	}
	if lines := strings.Count(s.log.String(), "\n"); lines != 1 || !strings.Contains(s.log.String(), errRefused.Error()) {
		t.Errorf("logged: %s", s.log)
	}
}

// ending is a context that ends once it was asked some times whether it has.
type ending struct {
	context.Context
	asked int
}

func (e *ending) Err() error {
	if e.asked--; e.asked < 0 {
		return context.Canceled
	}
	return nil
}

// TestSettleEnds holds that nothing is written, nor said, when the context has ended,
// between modules or for a single one, and that the next call maps the code.
func TestSettleEnds(t *testing.T) {
	for asked := range 2 {
		s := openInFolder(t, t.TempDir())
		path := filepath.Join(s.code.dir, codeFile)
		s.engine.Settle(&ending{t.Context(), asked})
		if _, err := os.Stat(path); !os.IsNotExist(err) || s.log.Len() != 0 {
			t.Errorf("asked %d times: the file has the error %v; logged: %s", asked, err, s.log)
		}
		s.engine.Settle(t.Context())
		if got := files(t, s.executable(t)); !slices.Equal(got, []string{path}) {
			t.Errorf("afterwards it is mapped from %q", got)
		}
	}
	dir := t.TempDir()
	openInFolder(t, dir).engine.Settle(t.Context())
	s := openInFolder(t, dir)
	s.engine.Settle(&ending{t.Context(), 0})
	if got := files(t, s.executable(t)); !slices.Equal(got, []string{""}) {
		t.Errorf("with a file that is there it is mapped from %q", got)
	}
}

// reader gives the first bytes of content, and no more.
type reader struct {
	content []byte
	bytes   int
}

var errDisk = errors.New("input/output error")

func (r reader) ReadAt(b []byte, at int64) (int, error) {
	if n := copy(b, r.content[min(int(at), r.bytes):r.bytes]); n < len(b) {
		return n, errDisk
	}
	return len(b), nil
}

// TestCompare holds that machine code is compared to its last byte, and that a file which
// cannot be read is not taken for it.
func TestCompare(t *testing.T) {
	for _, size := range []int{1, comparePiece, 2*comparePiece + 100} {
		executable := bytes.Repeat([]byte("code"), size)[:size]
		for name, tt := range map[string]struct {
			file reader
			same bool
			err  error
		}{
			"the same":          {reader{executable, size}, true, nil},
			"longer":            {reader{append(slices.Clone(executable), 0), size + 1}, true, nil},
			"another last byte": {reader{append(slices.Clone(executable[:size-1]), 0), size}, false, nil},
			"unreadable":        {reader{executable, 0}, false, errDisk},
			"cut meanwhile":     {reader{executable, size - 1}, false, errDisk},
		} {
			if err := compare(tt.file, executable); (err == nil) != tt.same || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("%d bytes, %s: %v", size, name, err)
			}
		}
	}
}

// TestErrors holds that errors of mapping say what is wrong, and nothing else.
func TestErrors(t *testing.T) {
	s := openInFolder(t, t.TempDir())
	short := filepath.Join(t.TempDir(), codeFile)
	write(t, short, []byte("short"), 0o400)
	for _, tt := range []struct {
		err  error
		want string
	}{
		{checkMemory(make([]byte, 10)), "machine code is not in memory of its own"},
		{mapFile(short, s.executable(t)), "the file holds other code: " + short},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("got the error %v, want %s", tt.err, tt.want)
		}
	}
}
