// Package memory gives sandboxes their linear memory, and restores it to an image
// after each request.
//
// An image is a file in memory. Each sandbox maps it copy-on-write:
//
//	image    |--- shared by all, read only ------|
//	sandbox  |--- image, own copy where written -|- grown, own -|- reserved -|
//	         0                                   image's size   Len          Max
//
// so an idle sandbox costs what its requests wrote. Reset finds the pages that the
// sandbox has copies of and fills them from the image. A Strategy is a way to find
// them; all guarantee the same: after Reset the memory is, byte for byte, the image.
// Memory that grew cannot be reset.
package memory

import (
	"errors"
	"fmt"
	"os"
)

// Strategy is a way to restore memory to its image.
type Strategy int

// Strategies, the best first.
const (
	// Auto is the best that the machine has.
	Auto Strategy = iota
	// Track makes the kernel note each page that is written for the first time
	// (userfaultfd in its asynchronous write-protect mode) and asks for those with
	// ioctl(PAGEMAP_SCAN). It needs Linux 6.7, where userfaultfd is allowed.
	Track
	// Scan asks for the pages that do not belong to the image's file, with
	// ioctl(PAGEMAP_SCAN). The kernel looks at more than for Track. It needs Linux 6.7.
	Scan
	// Pagemap reads /proc/self/pagemap for the same. It needs Linux.
	Pagemap
	// DontNeed drops all pages with madvise(MADV_DONTNEED). It needs Linux.
	DontNeed
	// Copy copies the whole image, on every system.
	Copy
)

var strategyNames = [...]string{Auto: "auto", Track: "track", Scan: "scan", Pagemap: "pagemap", DontNeed: "dontneed", Copy: "copy"}

func (s Strategy) String() string {
	if s < 0 || int(s) >= len(strategyNames) {
		return fmt.Sprintf("strategy %d", int(s))
	}
	return strategyNames[s]
}

// ErrStrategy is the error of a strategy that the machine does not have.
var ErrStrategy = errors.New("reset strategy not available here")

// Available returns the strategies that the machine has, the best first.
func Available() []Strategy {
	var list []Strategy
	for s := Track; s <= Copy; s++ {
		if probe(s) == nil {
			list = append(list, s)
		}
	}
	return list
}

// Choose returns s if the machine has it, and the best that it has for Auto.
func Choose(s Strategy) (Strategy, error) {
	if s == Auto {
		if all := Available(); len(all) > 0 {
			return all[0], nil
		}
		s = Copy // what it lacks, all of them lack
	}
	if err := probe(s); err != nil {
		return Auto, fmt.Errorf("choose reset strategy %s: %w", s, err)
	}
	return s, nil
}

// probe tries a strategy on a small image.
func probe(s Strategy) error {
	if s <= Auto || s > Copy {
		return ErrStrategy
	}
	page := max(pageSize, os.Getpagesize())
	content := make([]byte, 4*page)
	content[1] = 1
	image, err := NewImage(content)
	if err != nil {
		return err
	}
	defer image.Close()
	m, err := image.Map(len(content), s)
	if err != nil {
		return err
	}
	defer m.Free()
	b := m.Resize(uint64(len(content)))
	b[1], b[2*page] = 2, 3
	if _, err := m.Reset(); err != nil {
		return err
	}
	if b[1] != 1 || b[2*page] != 0 {
		return ErrStrategy
	}
	return nil
}

// pageSize is the smallest page, in bytes, of the processors that Go runs on. Where
// pages are bigger, their neighbours are filled as well.
const pageSize = 4096

// Bytes returns the image, which must not be written.
func (i *Image) Bytes() []byte { return i.content }

// Map returns a memory of at most max bytes that starts as the image.
func (i *Image) Map(max int, s Strategy) (*Linear, error) {
	m, err := New(max, s)
	if err != nil {
		return nil, err
	}
	if err := m.Attach(i); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// Linear is the linear memory of a sandbox. It is used by one goroutine at a time.
type Linear struct {
	// Grow, if set, is asked before memory becomes bigger than it ever was; if it
	// returns false, the memory stays as it is.
	Grow func(from, to int) bool
	// Ungrow, if set, is called when memory stays as it is though Grow returned true: it is
	// beyond Max, or the system refused it.
	Ungrow func(from, to int)

	bytes    []byte // the usable ones
	max      int
	image    *Image // nil: none yet
	strategy Strategy
	system   // what the operating system needs
}

// Len returns how many bytes are usable.
func (m *Linear) Len() int { return len(m.bytes) }

// Max returns how many bytes can become usable.
func (m *Linear) Max() int { return m.max }

// Resize returns the first size bytes of memory, nil when it may not be so big.
func (m *Linear) Resize(size uint64) []byte {
	if n := int(size); n > len(m.bytes) {
		from := len(m.bytes)
		if m.Grow != nil && !m.Grow(from, n) {
			return nil
		}
		if n > m.max || m.extend(n) != nil {
			if m.Ungrow != nil {
				m.Ungrow(from, n)
			}
			return nil
		}
	}
	return m.bytes[:size:size]
}

// Reset restores the memory to its image, and returns how many bytes it wrote. After
// an error the memory must not be used.
func (m *Linear) Reset() (written int, err error) {
	if len(m.bytes) != len(m.image.content) {
		return 0, errors.New("reset memory: it grew")
	}
	return m.restore()
}
