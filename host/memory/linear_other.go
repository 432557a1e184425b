//go:build !linux

package memory

import (
	"fmt"
	"slices"
)

// Image is the memory that sandboxes start from. It does not change.
type Image struct{ content []byte }

// NewImage makes an image of content, whose length is a multiple of 4 096.
func NewImage(content []byte) (*Image, error) { return &Image{slices.Clone(content)}, nil }

// Close frees the image. No memory that maps it may be in use.
func (i *Image) Close() { i.content = nil }

type system struct{}

// New makes a memory of at most max bytes that starts as zeros.
func New(max int, s Strategy) (*Linear, error) {
	if s != Copy {
		return nil, ErrStrategy
	}
	return &Linear{max: max, strategy: s}, nil
}

// Attach makes image the content of the memory.
func (m *Linear) Attach(image *Image) error {
	if len(image.content) > m.max {
		return fmt.Errorf("copy image of %d bytes to memory of at most %d", len(image.content), m.max)
	}
	if n := len(image.content); n > len(m.bytes) {
		_ = m.extend(n)
	}
	m.image = image
	copy(m.bytes, image.content)
	return nil
}

// Move moves the memory to space, which an engine has reserved and will free. space
// has room for Max bytes, of which used, no fewer than Len, are in use.
func (m *Linear) Move(space []byte, used int) error {
	if len(space) < m.max || used > m.max || used < len(m.bytes) {
		return fmt.Errorf("move memory of at most %d bytes to room for %d", m.max, len(space))
	}
	copy(space[:used], m.bytes)
	m.bytes = space[:used:m.max]
	return nil
}

// extend makes n bytes usable. Where the memory was moved, there is room for them.
func (m *Linear) extend(n int) error {
	m.bytes = slices.Grow(m.bytes, n-len(m.bytes))[:n]
	return nil
}

func (m *Linear) restore() (int, error) { return copy(m.bytes, m.image.content), nil }

// Watch begins a period in which only this goroutine writes to the memory.
func (m *Linear) Watch() {}

// Pause suspends that period while the goroutine waits.
func (m *Linear) Pause() {}

// Resume continues the period.
func (m *Linear) Resume() {}

// Unwatch ends the period.
func (m *Linear) Unwatch() {}

// Free frees the memory. It may be called twice.
func (m *Linear) Free() { m.bytes = nil }
