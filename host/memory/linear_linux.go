package memory

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Image is the memory that sandboxes start from. It does not change.
type Image struct {
	fd      int
	content []byte // the file, mapped for reading
	tracker int    // userfaultfd for all memories that map the image; 0: none yet
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
	// From here on a write fails, even one by mistake.
	if _, err := unix.FcntlInt(uintptr(i.fd), unix.F_ADD_SEALS,
		unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return err
	}
	var err error
	i.content, err = unix.Mmap(i.fd, 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	return err
}

// Close frees the image. No memory that maps it may be in use.
func (i *Image) Close() {
	if i.content != nil {
		_ = unix.Munmap(i.content)
	}
	if i.tracker > 0 {
		_ = unix.Close(i.tracker)
	}
	_ = unix.Close(i.fd)
}

// system holds the part of a memory that depends on Linux.
type system struct {
	reserved []byte   // address space for all of the memory; nil once it was moved
	scanner  *scanner // for Track, Scan and Pagemap
	watch
}

// New reserves room for at most max bytes of memory that starts as zeros.
func New(max int, s Strategy) (*Linear, error) {
	space, err := unix.Mmap(-1, 0, max, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory: %w", max, err)
	}
	m := &Linear{bytes: space[:0], max: max, strategy: s, system: system{reserved: space}}
	if s == Track || s == Scan || s == Pagemap {
		// One for each memory: the kernel makes users of a shared one wait.
		pagemap, err := os.Open("/proc/self/pagemap")
		if err != nil {
			m.Free()
			return nil, err
		}
		m.scanner, m.counts = &scanner{file: pagemap, fd: pagemap.Fd()}, true
	}
	return m, nil
}

// Attach makes image the content of the memory, which stays where it is.
func (m *Linear) Attach(image *Image) error {
	size := len(image.content)
	if size > m.max {
		return fmt.Errorf("map image of %d bytes to memory of at most %d", size, m.max)
	}
	if err := mapFixed(m.bytes[:size], image.fd, unix.MAP_PRIVATE|unix.MAP_NORESERVE); err != nil {
		return fmt.Errorf("map image: %w", err)
	}
	if m.strategy == Track {
		if err := image.track(m.bytes[:size]); err != nil {
			return fmt.Errorf("track writes: %w", err)
		}
	}
	m.image, m.bytes = image, m.bytes[:max(len(m.bytes), size)]
	return nil
}

// Move moves the memory to space, which an engine has reserved and will free. space
// has room for Max bytes, of which used, no fewer than Len, are in use. Nothing but
// an image may have been put into the memory before.
func (m *Linear) Move(space []byte, used int) error {
	if len(space) < m.max || used > m.max || used < len(m.bytes) {
		return fmt.Errorf("move memory of at most %d bytes to room for %d", m.max, len(space))
	}
	old := m.reserved
	m.reserved, m.bytes = nil, space[:used:m.max]
	var err error
	if m.image != nil {
		err = m.Attach(m.image)
	}
	if e := unix.Munmap(old); e != nil && err == nil {
		err = fmt.Errorf("free %d bytes of memory: %w", len(old), e)
	}
	return err
}

// extend makes n bytes usable.
func (m *Linear) extend(n int) error {
	b := m.bytes[:n]
	if err := unix.Mprotect(b[len(m.bytes):], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	m.bytes = b
	return nil
}

// restore does the work of Reset.
func (m *Linear) restore() (written int, err error) {
	content := m.image.content
	if m.scanner != nil && m.nothingNew() {
		return m.scanner.fill(m.bytes, content), nil
	}
	switch m.strategy {
	case Track:
		return m.scanner.scan(m.bytes, content, scanArg{mask: pageIsWritten, returned: pageIsWritten})
	case Scan:
		return m.scanner.scan(m.bytes, content,
			scanArg{inverted: pageIsFile, mask: pageIsFile, anyOf: pageIsPresent | pageIsSwapped})
	case Pagemap:
		return m.scanner.readPagemap(m.bytes, content)
	case DontNeed:
		return 0, unix.Madvise(m.bytes, unix.MADV_DONTNEED)
	}
	return copy(m.bytes, content), nil
}

// Free frees the memory. It may be called twice.
func (m *Linear) Free() {
	if m.reserved != nil {
		_ = unix.Munmap(m.reserved)
	}
	if m.scanner != nil {
		_ = m.scanner.file.Close()
	}
	m.bytes, m.system = nil, system{}
}
