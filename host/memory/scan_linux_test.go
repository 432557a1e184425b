package memory

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAvailable has every Linux use what its kernel offers.
func TestAvailable(t *testing.T) {
	want := []Strategy{DontNeed, Copy}
	if _, err := os.Stat("/proc/self/pagemap"); err == nil {
		want = append(want, Pagemap)
		var name unix.Utsname
		if err := unix.Uname(&name); err != nil {
			t.Fatal(err)
		}
		var major, minor int
		if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
			t.Fatal(err)
		}
		if major > 6 || major == 6 && minor >= 7 {
			want = append(want, Scan)
			if fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|uffdUserModeOnly, 0, 0); errno == 0 {
				want = append(want, Track)
				_ = unix.Close(int(fd))
			}
		}
	}
	slices.Sort(want)
	if got := Available(); !slices.Equal(got, want) {
		t.Errorf("available are %v, want %v", got, want)
	}
}

// TestFillOfBigPages fills a memory that ends within a page of 64 KiB, of which the kernel
// names the whole.
func TestFillOfBigPages(t *testing.T) {
	memory, content := make([]byte, 4*pageSize), bytes.Repeat([]byte{1}, 4*pageSize)
	s := &scanner{own: []span{{0, 64 << 10}}}
	if n := s.fill(memory, content); n != len(content) || !bytes.Equal(memory, content) {
		t.Errorf("filled %d bytes of %d", n, len(content))
	}
}

// TestResetWritesOnlyWhatWasWritten restores the pages that were written, by each
// strategy that asks for them, and not those that were read.
func TestResetWritesOnlyWhatWasWritten(t *testing.T) {
	image := newTestImage(t)
	for _, s := range Available() {
		m, err := image.Map(testSize, s)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		b := m.Resize(testSize)
		var sum byte
		for i := 0; i < testSize/2; i += pageSize {
			sum += b[i]
		}
		for i := range 10 {
			b[i*100*pageSize/4] = sum + 1
		}
		want := map[Strategy]int{DontNeed: 0, Copy: testSize, Track: 10 * pageSize, Scan: 10 * pageSize, Pagemap: 10 * os.Getpagesize()}[s]
		for range 2 { // a page that was written once is restored each time
			if written, err := m.Reset(); err != nil || written != want {
				t.Errorf("%s: wrote %d bytes, %v, want %d", s, written, err, want)
			}
		}
	}
}

// scanned maps an image once by each strategy that finds written pages by a page map, and
// that this system has.
func scanned(t *testing.T, image *Image) map[Strategy]*Linear {
	t.Helper()
	maps := make(map[Strategy]*Linear)
	for _, s := range []Strategy{Track, Scan, Pagemap} {
		if _, err := Choose(s); err != nil {
			t.Logf("NOT TESTED: %v", err)
			continue
		}
		m, err := image.Map(testSize, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Free() })
		maps[s] = m
	}
	return maps
}

// TestWatchSparesAsking: a watched memory of which no other page was written sooner or
// later needs not ask. One that is not watched any more always does.
func TestWatchSparesAsking(t *testing.T) {
	image := newTestImage(t)
	for s, m := range scanned(t, image) {
		b := m.Resize(testSize)
		for tries := 0; ; tries++ { // the thread may have other page faults
			m.Watch()
			b[0]++
			spared := m.nothingNew()
			if _, err := m.Reset(); err != nil {
				t.Fatal(err)
			}
			m.Unwatch()
			if m.nothingNew() {
				t.Fatalf("%s: nobody watches, and nothing is new", s)
			}
			if spared {
				break
			}
			if tries == 10_000 {
				t.Fatalf("%s: something is always new", s)
			}
		}
	}
}

// TestWatchKeepsTheThread has a goroutine keep its thread while the page faults of that
// count, and no longer.
func TestWatchKeepsTheThread(t *testing.T) {
	image := newTestImage(t)
	maps := scanned(t, image)
	var err error
	if maps[Copy], err = image.Map(testSize, Copy); err != nil {
		t.Fatal(err)
	}
	defer maps[Copy].Free()
	for s, m := range maps {
		counts := s != Copy
		for _, step := range []struct {
			name string
			do   func()
			want bool
		}{
			{"Watch", m.Watch, counts}, {"Pause", m.Pause, false}, {"Resume", m.Resume, counts}, {"Unwatch", m.Unwatch, false},
		} {
			step.do()
			stack := make([]byte, 100) // begins with the state of this goroutine
			stack = stack[:runtime.Stack(stack, false)]
			if got := bytes.Contains(stack, []byte("locked to thread")); got != step.want {
				t.Errorf("%s: after %s the thread is kept: %t", s, step.name, got)
			}
		}
	}
}

// TestFree frees so much address space that none would be left were it not.
func TestFree(t *testing.T) {
	for range 40 {
		m, err := New(8<<40, Copy)
		if err != nil {
			t.Fatal(err)
		}
		m.Free()
		m.Free()
	}
	if _, err := New(1<<62, Copy); err == nil {
		t.Error("more is reserved than there is")
	}
	m, err := New(testSize, Pagemap)
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	file := m.scanner.file
	m.Free()
	if err := file.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the page map was open: %v", err)
	}
}

// TestImageOfZeros takes no memory for pages of zeros.
func TestImageOfZeros(t *testing.T) {
	content := make([]byte, testSize)
	content[testSize/2] = 1
	image, err := NewImage(content)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	var info unix.Stat_t
	if err := unix.Fstat(image.fd, &info); err != nil {
		t.Fatal(err)
	}
	if taken := info.Blocks * 512; taken < pageSize || taken > testSize/4 {
		t.Errorf("an image of one page takes %d bytes", taken)
	}
}

// TestResetNeedsThePageMap: without it nobody knows what was written, and the memory
// must not be used.
func TestResetNeedsThePageMap(t *testing.T) {
	image := newTestImage(t)
	for s, m := range scanned(t, image) {
		if err := m.scanner.file.Close(); err != nil {
			t.Fatal(err)
		}
		m.scanner.fd = ^uintptr(0)
		m.Resize(testSize)[0]++
		if written, err := m.Reset(); err == nil {
			t.Errorf("%s: wrote %d bytes and no error", s, written)
		}
	}
}
