// Package memory gives sandboxes their linear memory, and takes it back to an
// image after each request.
//
// An image is a file in memory. Each sandbox maps it copy-on-write:
//
//	image    |--- shared by all, read only ------|
//	sandbox  |--- image, own copy where written -|- grown, own -|- reserved -|
//	         0                                   len            grown        max
//
// so an idle sandbox costs what its requests wrote. Reset finds the pages of
// its own that a sandbox has and fills them from the image. How they are found
// is a Strategy; what is guaranteed is the same for all: after Reset the memory
// is, byte for byte, the image. A sandbox that grew is not reset: it is freed.
package memory

import (
	"errors"
	"fmt"
)

// Strategy is a way to take memory back to its image.
type Strategy int

// Strategies, the best first.
const (
	// Auto is the best that the machine has.
	Auto Strategy = iota
	// Track has the kernel note each page that is written for the first time,
	// with userfaultfd in its asynchronous write-protect mode, asks for those
	// with ioctl(PAGEMAP_SCAN), and fills them again. Linux 6.7, where
	// userfaultfd is allowed.
	Track
	// Scan asks for the pages that do not belong to the image's file, with
	// ioctl(PAGEMAP_SCAN), and fills them again. The kernel looks at more than
	// for Track. Linux 6.7.
	Scan
	// Pagemap reads /proc/self/pagemap for the same. Linux.
	Pagemap
	// DontNeed gives all pages back with madvise(MADV_DONTNEED). Linux.
	DontNeed
	// Copy copies the whole image. Everywhere.
	Copy
)

var strategyNames = [...]string{Auto: "auto", Track: "track", Scan: "scan", Pagemap: "pagemap", DontNeed: "dontneed", Copy: "copy"}

func (s Strategy) String() string {
	if s < 0 || int(s) >= len(strategyNames) {
		return fmt.Sprintf("strategy %d", int(s))
	}
	return strategyNames[s]
}

// ErrStrategy says that the machine does not have a strategy.
var ErrStrategy = errors.New("reset strategy not available here")

// Available are the strategies that this machine has, the best first.
func Available() []Strategy {
	var list []Strategy
	for s := Track; s <= Copy; s++ {
		if probe(s) == nil {
			list = append(list, s)
		}
	}
	return list
}

// Choose returns s if the machine has it, and the best for Auto.
func Choose(s Strategy) (Strategy, error) {
	if s == Auto {
		return Available()[0], nil
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
	content := make([]byte, 4*pageSize)
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
	b[1], b[2*pageSize] = 2, 3
	if _, err := m.Reset(); err != nil {
		return err
	}
	if b[1] != 1 || b[2*pageSize] != 0 {
		return ErrStrategy
	}
	return nil
}

// pageSize is the smallest page of a processor that is run on, in bytes; a
// bigger one only means that neighbours are filled again as well.
const pageSize = 4096
