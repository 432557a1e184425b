package memory

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestMove moves a memory to room of an engine's, with its image, and leaves that room
// to the engine. Room that does not fit is refused.
func TestMove(t *testing.T) {
	image := newTestImage(t)
	for _, s := range Available() {
		space, err := unix.Mmap(-1, 0, testSize+pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		m, err := image.Map(testSize, s)
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"too little room": m.Move(space[:testSize-1], testSize), "more used than there may be": m.Move(space, testSize+1),
			"less used than there is": m.Move(space, testSize-1),
		} {
			if err == nil {
				t.Errorf("%s: %s: moved", s, name)
			}
		}
		old := m.reserved
		if err := m.Move(space, testSize); err != nil {
			t.Fatal(err)
		}
		if err := unix.Munmap(old); err == nil {
			t.Errorf("%s: where it was is not free", s)
		}
		if b := m.Resize(testSize); &b[0] != &space[0] || !bytes.Equal(b, image.Bytes()) {
			t.Errorf("%s: it is not there", s)
		}
		space[5*pageSize]++
		if _, err := m.Reset(); err != nil || !bytes.Equal(space[:testSize], image.Bytes()) {
			t.Errorf("%s: memory is not the image, %v", s, err)
		}
		m.Free()
		if err := unix.Munmap(space); err != nil {
			t.Errorf("%s: free the engine's room: %v", s, err)
		}
	}
}

// TestMemoryThatCannotGrow has the system refuse to make memory usable.
func TestMemoryThatCannotGrow(t *testing.T) {
	image := newTestImage(t)
	m, err := New(testSize, Copy)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	// A shared mapping of a sealed file can never be written.
	if _, err := unix.MmapPtr(image.fd, 0, unsafe.Pointer(unsafe.SliceData(m.reserved)), testSize,
		unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		t.Fatal(err)
	}
	if m.Resize(pageSize) != nil || m.Len() != 0 {
		t.Errorf("%d bytes are usable", m.Len())
	}
}

// TestNoImage makes no image of nothing, nor maps one to a memory that is smaller, and
// keeps no file open.
func TestNoImage(t *testing.T) {
	image := newTestImage(t)
	before := openFiles(t)
	if i, err := NewImage(nil); err == nil {
		t.Errorf("an image of %d bytes", len(i.Bytes()))
	}
	for _, s := range Available() {
		if m, err := image.Map(testSize-pageSize, s); err == nil {
			t.Errorf("%s: mapped to %d bytes", s, m.Max())
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, before %d", after, before)
	}
}

// openFiles returns how many files this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	return len(files)
}

// TestMoveOfWhatIsNotMapped has room that is mapped no more when a memory leaves it: the
// engine is told.
func TestMoveOfWhatIsNotMapped(t *testing.T) {
	m, err := New(testSize, Copy)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Munmap(m.reserved); err != nil {
		t.Fatal(err)
	}
	if err := m.Move(make([]byte, testSize), 0); !errors.Is(err, unix.EINVAL) {
		t.Errorf("moved: %v, want %v", err, unix.EINVAL)
	}
}
