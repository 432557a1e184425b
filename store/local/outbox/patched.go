package outbox

import (
	"fmt"
	"io"
)

const (
	// blockSize is the bytes that a disk reads or does not: no system reads fewer from one.
	blockSize = 4 << 10
	// maxBadBlocks bounds the blocks of a file that are passed over, each of which a disk may
	// take seconds for. A disk with more of them is to be looked at.
	maxBadBlocks = 256
)

// patched reads a file and takes the blocks that the disk does not read for zeros, so that what
// lies around them is found. It is used by one goroutine.
type patched struct {
	f    io.ReaderAt
	size int64 // bytes of the file

	bad  map[int64]struct{} // blocks that were not read
	err  error              // of the first of them
	some bool               // something was read
}

// ReadAt implements io.ReaderAt.
func (p *patched) ReadAt(b []byte, at int64) (n int, err error) {
	want := len(b)
	b = b[:max(0, min(int64(want), p.size-at))]
	if len(p.bad) == 0 {
		if n, err = p.read(b, at); !unread(err) {
			return p.ended(n, want)
		}
	}
	for n < len(b) {
		block := (at + int64(n)) / blockSize
		end := int(min(int64(len(b)), (block+1)*blockSize-at))
		if _, known := p.bad[block]; known {
			clear(b[n:end])
		} else if got, err := p.read(b[n:end], at+int64(n)); !unread(err) {
			clear(b[n+got : end])
		} else if err := p.note(block, err); err != nil {
			return n, err
		} else {
			clear(b[n:end])
		}
		n = end
	}
	return p.ended(n, want)
}

func (p *patched) read(b []byte, at int64) (n int, err error) {
	n, err = p.f.ReadAt(b, at)
	p.some = p.some || n > 0
	return n, err
}

// note takes a block for zeros from now on, or returns an error when there are too many.
func (p *patched) note(block int64, err error) error {
	if p.bad == nil {
		p.bad, p.err = map[int64]struct{}{}, err
	}
	if len(p.bad) == maxBadBlocks {
		return fmt.Errorf("more than %d blocks of %d bytes cannot be read: %w", maxBadBlocks, blockSize, err)
	}
	p.bad[block] = struct{}{}
	return nil
}

// isBad reports whether one of the n bytes at an offset was not read.
func (p *patched) isBad(at, n int64) bool {
	for block := at / blockSize; block*blockSize < at+n && len(p.bad) > 0; block++ {
		if _, bad := p.bad[block]; bad {
			return true
		}
	}
	return false
}

// ended returns n, and io.EOF where that is less than was wanted.
func (p *patched) ended(n, want int) (int, error) {
	if n < want {
		return n, io.EOF
	}
	return n, nil
}

// blind returns the disk's error when it reads nothing of the file.
func (p *patched) blind() error {
	if p.some {
		return nil
	}
	return p.err
}

// badBytes returns about how many bytes are not read.
func (p *patched) badBytes() int64 { return int64(len(p.bad)) * blockSize }
