//go:build !linux

package memory

import (
	"errors"
	"fmt"
)

// Image is memory that sandboxes start from. It does not change.
type Image struct{ content []byte }

// NewImage makes an image of content, whose length is a multiple of 4 096.
func NewImage(content []byte) (*Image, error) {
	return &Image{append([]byte(nil), content...)}, nil
}

// Bytes is the image. It must not be written.
func (i *Image) Bytes() []byte { return i.content }

// Close frees the image. No map of it may be in use.
func (i *Image) Close() { i.content = nil }

// Map is a sandbox's memory. It is used by one goroutine at a time.
type Map struct {
	// Grow, if set, is asked before memory becomes bigger than it ever was; an
	// answer of false refuses it.
	Grow func(from, to int) bool

	space []byte
	room  []byte // an engine's, which space lies at the start of; nil: none
	max   int
	image *Image
}

// New makes room for at most max bytes of memory that starts as zeros.
func New(max int, s Strategy) (*Map, error) {
	if s != Copy {
		return nil, ErrStrategy
	}
	return &Map{max: max}, nil
}

// Map makes a memory of at most max bytes that starts as the image.
func (i *Image) Map(max int, s Strategy) (*Map, error) {
	m, err := New(max, s)
	if err != nil {
		return nil, err
	}
	return m, m.Lay(i)
}

// Lay makes the memory, which stays where it is, what the image is.
func (m *Map) Lay(i *Image) error {
	if len(i.content) > m.max {
		return fmt.Errorf("lay image of %d bytes into memory of at most %d", len(i.content), m.max)
	}
	if len(m.space) < len(i.content) && m.room != nil {
		return errors.New("lay image into less memory than it has")
	}
	if len(m.space) < len(i.content) {
		m.space = make([]byte, len(i.content))
	}
	m.image = i
	copy(m.space, i.content)
	return nil
}

// Move makes room, which an engine has reserved and will free, where the memory
// is from now on. It is as big as the memory can become; used bytes of it, no
// fewer than Len, are in use. What the memory was, it is there.
func (m *Map) Move(room []byte, used int) error {
	if len(room) < m.max || used > m.max || used < len(m.space) {
		return fmt.Errorf("move memory of at most %d bytes to room for %d", m.max, len(room))
	}
	copy(room[:used], m.space)
	m.space, m.room = room[:used:used], room[:m.max]
	return nil
}

// Resize returns the first size bytes of memory, nil when it may not be so big.
func (m *Map) Resize(size uint64) []byte {
	if m.Grow != nil && int(size) > len(m.space) && !m.Grow(len(m.space), int(size)) || size > uint64(m.max) {
		return nil
	}
	if n := int(size); n > len(m.space) && m.room != nil {
		m.space = m.room[:n:n] // the engine has zeros there
	} else if n > len(m.space) {
		m.space = append(m.space, make([]byte, n-len(m.space))...)
	}
	return m.space[:size:size]
}

// Len is how many bytes are usable.
func (m *Map) Len() int { return len(m.space) }

// Max is how many bytes can be.
func (m *Map) Max() int { return m.max }

// Reset makes the memory the image again, and tells how many bytes it wrote.
// After an error the memory is not to be used.
func (m *Map) Reset() (written int, err error) {
	if len(m.space) != len(m.image.content) {
		return 0, errors.New("reset memory: it grew")
	}
	return copy(m.space, m.image.content), nil
}

// Watch says that until Unwatch only this goroutine writes to the memory.
func (m *Map) Watch() {}

// Pause is for a wait between Watch and Unwatch.
func (m *Map) Pause() {}

// Resume ends what Pause began.
func (m *Map) Resume() {}

// Unwatch ends what Watch began.
func (m *Map) Unwatch() {}

// Free gives the memory back. It may be called twice.
func (m *Map) Free() { m.space = nil }
