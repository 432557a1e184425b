package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The interface of Linux's Documentation/admin-guide/mm/pagemap.rst and
// include/uapi/linux/fs.h.

// scanArg is struct pm_scan_arg.
type scanArg struct {
	size, flags           uint64
	start, end, walkEnd   uint64
	vec, vecLen           uint64
	maxPages              uint64
	inverted, mask, anyOf uint64 // categories
	returned              uint64
}

// region is struct page_region.
type region struct{ start, end, _ uint64 } // and the categories that were asked for

const (
	pagemapScan = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg)

	pageIsWritten = 1 << 1
	pageIsFile    = 1 << 2
	pageIsPresent = 1 << 3
	pageIsSwapped = 1 << 4

	entryPresent = 1 << 63
	entrySwapped = 1 << 62
	entryFile    = 1 << 61 // or shared
)

// scanner finds the pages that a memory has copies of, and fills them from its image.
type scanner struct {
	file    *os.File // the page map
	fd      uintptr
	arg     scanArg
	regions [64]region
	entries []byte
	own     []span // pages found the last time; there are never fewer
}

// span is a part of a memory.
type span struct{ from, to int }

// scan asks for the pages of the categories in arg, and fills them.
func (s *scanner) scan(memory, content []byte, arg scanArg) (written int, err error) {
	base := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
	end := base + uint64(len(memory))
	s.arg = arg
	s.arg.size, s.arg.start, s.arg.end = uint64(unsafe.Sizeof(s.arg)), base, end
	s.arg.vec, s.arg.vecLen = uint64(uintptr(unsafe.Pointer(&s.regions))), uint64(len(s.regions))
	s.own = s.own[:0]
	for s.arg.start < end {
		// It neither blocks nor takes long: the scheduler need not know.
		n, _, errno := unix.RawSyscall(unix.SYS_IOCTL, s.fd, pagemapScan, uintptr(unsafe.Pointer(&s.arg)))
		if errno == unix.EINTR || errno == unix.EAGAIN {
			continue
		}
		if errno != 0 {
			return written, fmt.Errorf("scan pages: %w", errno)
		}
		for _, r := range s.regions[:n] {
			s.own = append(s.own, span{int(r.start - base), int(r.end - base)})
		}
		if s.arg.walkEnd <= s.arg.start {
			return written, errors.New("scan pages: the kernel made no progress")
		}
		s.arg.start = s.arg.walkEnd
	}
	return s.fill(memory, content), nil
}

// fill fills the pages that were found the last time. The memory may end within the last
// one.
func (s *scanner) fill(memory, content []byte) (written int) {
	for _, p := range s.own {
		to := min(p.to, len(memory))
		written += copy(memory[p.from:to], content[p.from:to])
	}
	return written
}

// readPagemap does the work of scan by reading an entry for every page.
func (s *scanner) readPagemap(memory, content []byte) (written int, err error) {
	size := os.Getpagesize()
	pages := len(memory) / size
	if s.entries == nil {
		s.entries = make([]byte, 8*pages)
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	if _, err := s.file.ReadAt(s.entries[:8*pages], int64(base)/int64(size)*8); err != nil && err != io.EOF {
		return 0, fmt.Errorf("read page map: %w", err)
	}
	s.own = s.own[:0]
	for i := range pages {
		e := binary.NativeEndian.Uint64(s.entries[8*i:])
		if e&(entryPresent|entrySwapped) != 0 && e&entryFile == 0 {
			s.own = append(s.own, span{i * size, (i + 1) * size})
		}
	}
	return s.fill(memory, content), nil
}

// mapFixed maps the start of a file over memory that is mapped already.
func mapFixed(memory []byte, fd int, flags int) error {
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(unsafe.SliceData(memory)), uintptr(len(memory)),
		unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_FIXED)
	return err
}
