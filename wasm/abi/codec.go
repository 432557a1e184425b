package abi

import (
	"errors"
	"slices"
	"unsafe"
)

// ErrFrame is the error of a frame that is cut short or too long, is of another
// version, or holds a length beyond its end.
var ErrFrame = errors.New("read frame: malformed")

// extend adds n bytes to b, to be written by the caller.
func extend(b []byte, n int) (whole, added []byte) {
	if cap(b)-len(b) < n {
		b = grow(b, n)
	}
	whole = b[:len(b)+n]
	return whole, whole[len(b):]
}

// grow is not inlined, for the reason given at bytes: buffers are nearly always
// large enough.
//
//go:noinline
func grow(b []byte, n int) []byte { return slices.Grow(b, n) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

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

func appendI64(b []byte, v int64) []byte {
	b, added := extend(b, 8)
	putU64(added, uint64(v))
	return b
}

// appendBytes appends a u32 length and the bytes of s.
func appendBytes[T string | []byte](b []byte, s T) []byte {
	b, added := extend(b, 4+len(s))
	putU32(added, uint32(len(s)))
	copy(added[4:], s)
	return b
}

// putBytes writes a u32 length and the bytes of s to the start of b, and returns the rest
// of b. It is not inlined, for the reason given at bytes.
//
//go:noinline
func putBytes(b []byte, s string) []byte {
	putU32(b, uint32(len(s)))
	copy(b[4:], s)
	return b[4+len(s):]
}

func appendStrings(b []byte, list []string) []byte {
	for _, s := range list {
		b = appendBytes(b, s)
	}
	return b
}

func appendHeaders(b []byte, headers []Header) []byte {
	for _, h := range headers {
		b = appendBytes(b, h.Name)
		b = appendBytes(b, h.Value)
	}
	return b
}

// reader reads the fields of a frame in order. Once a field is missing, it and every
// further one are zero. Strings share the memory of the frame, so they are valid until
// it changes.
type reader struct {
	b  []byte
	at int // of the next field; behind the end of b once one was missing
}

func newReader(b []byte) reader { return reader{b: b} }

func (r *reader) ok() bool { return r.at <= len(r.b) }

// rest returns what has not been read.
func (r *reader) rest() []byte {
	if !r.ok() {
		return nil
	}
	return r.b[r.at:]
}

// fail makes every further field a missing one.
func (r *reader) fail() { r.at = len(r.b) + 1 }

// next returns the next n bytes, nil if there are fewer.
func (r *reader) next(n int) []byte {
	if n > len(r.b)-r.at {
		r.fail()
		return nil
	}
	p := r.b[r.at:][:n:n]
	r.at += n
	return p
}

func (r *reader) u8() uint8 {
	if p := r.next(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) bool() bool { return r.u8() == 1 }

func (r *reader) u16() uint16 {
	if p := r.next(2); p != nil {
		return u16(p)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if p := r.next(4); p != nil {
		return u32(p)
	}
	return 0
}

func (r *reader) i64() int64 {
	if p := r.next(8); p != nil {
		return int64(u64(p))
	}
	return 0
}

// threeEmpty reads three fields if all of them are empty, and reports whether they are.
func (r *reader) threeEmpty() bool {
	if len(r.b)-r.at < 12 {
		return false
	}
	if p := r.b[r.at:]; u64(p) != 0 || u32(p[8:]) != 0 {
		return false
	}
	r.at += 12
	return true
}

// bytes is not inlined: frames have many byte fields, and in a guest, code that
// runs once a request is more expensive to load than to call.
//
//go:noinline
func (r *reader) bytes() []byte {
	at := r.at + 4
	if at <= len(r.b) {
		n := int(u32(r.b[r.at:]))
		if n <= len(r.b)-at {
			r.at = at + n
			return r.b[at:][:n:n]
		}
	}
	r.at = len(r.b) + 1
	return nil
}

func (r *reader) str() string {
	p := r.bytes()
	return unsafe.String(unsafe.SliceData(p), len(p))
}

// strings reads n strings into the memory of into.
func (r *reader) strings(n int, into []string) []string {
	into = into[:0]
	for i := 0; i < n && r.ok(); i++ {
		into = append(into, r.str())
	}
	return into
}

// headers reads n headers into the memory of into.
func (r *reader) headers(n int, into []Header) []Header {
	into = into[:0]
	for i := 0; i < n && r.ok(); i++ {
		into = append(into, Header{r.str(), r.str()})
	}
	return into
}

// end returns an error unless every field was there and nothing is left over.
func (r *reader) end() error {
	if r.at != len(r.b) {
		return ErrFrame
	}
	return nil
}
