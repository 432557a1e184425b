package memory

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Image is memory that sandboxes start from. It does not change.
type Image struct {
	fd      int
	content []byte // the file, mapped for reading
	tracker int    // userfaultfd for all maps of the image; 0: none yet
	once    sync.Once
	failed  error // of making the tracker
}

// NewImage makes an image of content, whose length is a multiple of 4 096.
func NewImage(content []byte) (*Image, error) {
	fd, err := unix.MemfdCreate("module image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	i := &Image{fd: fd}
	if err := i.fill(content); err != nil {
		i.Close()
		return nil, fmt.Errorf("make image: %w", err)
	}
	return i, nil
}

func (i *Image) fill(content []byte) error {
	if err := unix.Ftruncate(i.fd, int64(len(content))); err != nil {
		return err
	}
	var zero [pageSize]byte
	for at := 0; at < len(content); at += pageSize {
		page := content[at:min(at+pageSize, len(content))]
		if bytes.Equal(page, zero[:len(page)]) {
			continue // a hole reads as zeros and costs nothing
		}
		if n, err := unix.Pwrite(i.fd, page, int64(at)); err != nil || n < len(page) {
			return fmt.Errorf("write %d of %d bytes: %w", n, len(page), err)
		}
	}
	// Nobody may change it from here on, not even by mistake.
	if _, err := unix.FcntlInt(uintptr(i.fd), unix.F_ADD_SEALS,
		unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	var err error
	i.content, err = unix.Mmap(i.fd, 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// Bytes is the image. It must not be written.
func (i *Image) Bytes() []byte { return i.content }

// Close frees the image. No map of it may be in use.
func (i *Image) Close() {
	if i.content != nil {
		_ = unix.Munmap(i.content)
	}
	if i.tracker > 0 {
		_ = unix.Close(i.tracker)
	}
	_ = unix.Close(i.fd)
}

// Map is a sandbox's memory. It is used by one goroutine at a time.
type Map struct {
	// Grow, if set, is asked before memory becomes bigger than it ever was; an
	// answer of false refuses it.
	Grow func(from, to int) bool

	space    []byte // all that was reserved
	lent     bool   // by an engine, which frees it
	mapped   int    // usable bytes from its start
	image    *Image // nil: none yet
	strategy Strategy
	pagemap  *os.File // for Track, Scan and Pagemap
	scan     *scanner
	watch    watch
}

// New reserves room for at most max bytes of memory that starts as zeros.
func New(max int, s Strategy) (*Map, error) {
	space, err := unix.Mmap(-1, 0, max, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory: %w", max, err)
	}
	m := &Map{space: space, strategy: s}
	if s == Track || s == Scan || s == Pagemap {
		// One for each map: the kernel makes users of a shared one wait.
		if m.pagemap, err = os.Open("/proc/self/pagemap"); err != nil {
			m.Free()
			return nil, err
		}
		m.scan = newScanner(m.pagemap)
	}
	return m, nil
}

// Map makes a memory of at most max bytes that starts as the image.
func (i *Image) Map(max int, s Strategy) (*Map, error) {
	m, err := New(max, s)
	if err != nil {
		return nil, err
	}
	if err := m.Lay(i); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// Lay makes the memory, which stays where it is, what the image is.
func (m *Map) Lay(i *Image) error {
	if len(i.content) > len(m.space) {
		return fmt.Errorf("lay image of %d bytes into memory of at most %d", len(i.content), len(m.space))
	}
	err := mapFixed(m.space[:len(i.content)], i.fd, unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("map image: %w", err)
	}
	if m.strategy == Track {
		if err := i.track(m.space[:len(i.content)]); err != nil {
			return fmt.Errorf("track writes: %w", err)
		}
	}
	m.image, m.mapped = i, max(m.mapped, len(i.content))
	return nil
}

// Move makes room, which an engine has reserved and will free, where the memory
// is from now on. It is as big as the memory can become; used bytes of it, no
// fewer than Len, are in use. Where there is an image, it is there; nothing else
// may have been written before.
func (m *Map) Move(room []byte, used int) error {
	if len(room) < len(m.space) || used > len(m.space) || used < m.mapped {
		return fmt.Errorf("move memory of at most %d bytes to room for %d", len(m.space), len(room))
	}
	old, image := m.space, m.image
	m.space, m.lent, m.mapped = room[:len(old)], true, used
	var err error
	if image != nil {
		err = m.Lay(image)
	}
	if e := unix.Munmap(old); e != nil && err == nil {
		err = fmt.Errorf("free %d bytes of memory: %w", len(old), e)
	}
	return err
}

// Resize returns the first size bytes of memory, nil when it may not be so big.
func (m *Map) Resize(size uint64) []byte {
	if m.Grow != nil && int(size) > m.mapped && !m.Grow(m.mapped, int(size)) || size > uint64(len(m.space)) {
		return nil
	}
	if n := int(size); n > m.mapped {
		if err := unix.Mprotect(m.space[m.mapped:n], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return nil
		}
		m.mapped = n
	}
	return m.space[:size:size]
}

// Len is how many bytes are usable.
func (m *Map) Len() int { return m.mapped }

// Max is how many bytes can be.
func (m *Map) Max() int { return len(m.space) }

// Reset makes the memory the image again, and tells how many bytes it wrote.
// After an error the memory is not to be used.
func (m *Map) Reset() (written int, err error) {
	size := len(m.image.content)
	if m.mapped != size {
		return 0, fmt.Errorf("reset memory: it grew")
	}
	memory := m.space[:size]
	if m.scan != nil && m.watch.nothingNew() {
		return m.scan.refill(memory, m.image.content), nil
	}
	switch m.strategy {
	case Track:
		return m.scan.reset(memory, m.image.content, scanArg{mask: pageIsWritten, returned: pageIsWritten})
	case Scan:
		return m.scan.reset(memory, m.image.content,
			scanArg{inverted: pageIsFile, mask: pageIsFile, anyOf: pageIsPresent | pageIsSwapped})
	case Pagemap:
		return m.scan.read(memory, m.image.content)
	case DontNeed:
		return 0, unix.Madvise(memory, unix.MADV_DONTNEED)
	}
	return copy(memory, m.image.content), nil
}

// Watch says that until Unwatch only this goroutine writes to the memory. A
// Reset in between need not ask for the pages that were written if none was
// written for the first time. The goroutine keeps its thread until Unwatch.
func (m *Map) Watch() {
	if m.scan != nil {
		m.watch.start()
	}
}

// Pause is for a wait between Watch and Unwatch: until Resume the goroutine need
// not keep its thread, and nobody writes to the memory.
func (m *Map) Pause() {
	if m.scan != nil {
		m.watch.pause()
	}
}

// Resume ends what Pause began.
func (m *Map) Resume() {
	if m.scan != nil {
		m.watch.resume()
	}
}

// Unwatch ends what Watch began.
func (m *Map) Unwatch() {
	if m.scan != nil {
		m.watch.stop()
	}
}

// Free gives the memory back. It may be called twice.
func (m *Map) Free() {
	if m.space != nil && !m.lent {
		_ = unix.Munmap(m.space)
	}
	m.space = nil
	if m.pagemap != nil {
		_ = m.pagemap.Close()
		m.pagemap = nil
	}
}
