package abi

import (
	"encoding/binary"
	"errors"
	"unsafe"
)

// ErrFrame says that a frame is cut short, of another version, or holds a
// length that its bytes do not.
var ErrFrame = errors.New("read frame: malformed")

// appendBytes adds a u32 length and the bytes of s.
func appendBytes[T string | []byte](b []byte, s T) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// reader takes fields off a frame in order. After the first field that is not
// there, ok is false and every further field is zero. Strings it returns share
// the frame's bytes: they live as long as the frame is left alone.
type reader struct {
	b  []byte
	ok bool
}

func newReader(b []byte) reader { return reader{b: b, ok: true} }

func (r *reader) take(n int) []byte {
	if !r.ok || n < 0 || n > len(r.b) {
		r.ok = false
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) u8() uint8 {
	if p := r.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if p := r.take(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if p := r.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (r *reader) i64() int64 {
	if p := r.take(8); p != nil {
		return int64(binary.LittleEndian.Uint64(p))
	}
	return 0
}

func (r *reader) bytes() []byte {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)) {
		r.ok = false
		return nil
	}
	return r.take(int(n))
}

func (r *reader) str() string {
	p := r.bytes()
	return unsafe.String(unsafe.SliceData(p), len(p))
}

// end is nil when every field was there and nothing is left over.
func (r *reader) end() error {
	if !r.ok || len(r.b) != 0 {
		return ErrFrame
	}
	return nil
}
