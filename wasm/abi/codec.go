package abi

import (
	"errors"
	"slices"
	"unsafe"
)

// ErrFrame says that a frame is cut short, of another version, or holds a
// length that its bytes do not.
var ErrFrame = errors.New("read frame: malformed")

// extend adds n bytes, to be written by the caller, behind b's.
func extend(b []byte, n int) (whole, added []byte) {
	if cap(b)-len(b) < n {
		b = grow(b, n)
	}
	whole = b[:len(b)+n]
	return whole, whole[len(b):]
}

// grow is not inlined, as bytes is not; rooms are as good as always big enough.
//
//go:noinline
func grow(b []byte, n int) []byte { return slices.Grow(b, n) }

func appendU16(b []byte, v uint16) []byte {
	b, added := extend(b, 2)
	putU16(added, v)
	return b
}

func appendU32(b []byte, v uint32) []byte {
	b, added := extend(b, 4)
	putU32(added, v)
	return b
}

func appendTime(b []byte, t int64) []byte {
	b, added := extend(b, 8)
	putU64(added, uint64(t))
	return b
}

// appendBytes adds a u32 length and the bytes of s.
func appendBytes[T string | []byte](b []byte, s T) []byte {
	b, added := extend(b, 4+len(s))
	putU32(added, uint32(len(s)))
	copy(added[4:], s)
	return b
}

// reader takes fields off a frame in order. After the first field that is not
// there, ok is false and every further field is zero. Strings it returns share
// the frame's bytes: they live as long as the frame is left alone.
type reader struct {
	b  []byte
	ok bool
}

func newReader(b []byte) reader { return reader{b: b, ok: true} }

// fail makes every further field one that is not there.
func (r *reader) fail() { *r = reader{} }

// take is nil when there are fewer than n bytes.
func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail()
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
		return u16(p)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if p := r.take(4); p != nil {
		return u32(p)
	}
	return 0
}

func (r *reader) i64() int64 {
	if p := r.take(8); p != nil {
		return int64(u64(p))
	}
	return 0
}

// bytes is not inlined: frames have many of them, and code that is met once a
// request costs more to fetch than to call.
//
//go:noinline
func (r *reader) bytes() []byte {
	if len(r.b) < 4 {
		r.fail()
		return nil
	}
	n, rest := u32(r.b), r.b[4:]
	if uint64(n) > uint64(len(rest)) {
		r.fail()
		return nil
	}
	r.b = rest[n:]
	return rest[:n:n]
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
