package prepare

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Error is the error of a module that cannot be rewritten.
type Error struct {
	Offset int    // bytes from the start of the module
	What   string // "opcode return_call (tail call) is not supported"

	costly bool // see CheckCost
}

func (e *Error) Error() string {
	return fmt.Sprintf("prepare module: at offset %#x: %s", e.Offset, e.What)
}

// reader reads a module piece by piece. After the first that is not there, err says
// why and every further piece is zero.
type reader struct {
	b   []byte // the whole module, as far as it may be read
	at  int
	err *Error
}

// fail keeps the first error.
func (r *reader) fail(at int, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{Offset: at, What: fmt.Sprintf(format, args...)}
	}
}

func (r *reader) ok() bool  { return r.err == nil }
func (r *reader) end() bool { return r.err != nil || r.at >= len(r.b) }

func (r *reader) byte() byte {
	if r.err == nil && r.at < len(r.b) {
		r.at++
		return r.b[r.at-1]
	}
	r.fail(r.at, "it ends too early")
	return 0
}

// oneOf reads a byte that must be one of those known.
func (r *reader) oneOf(what string, known ...byte) byte {
	at := r.at
	b := r.byte()
	if bytes.IndexByte(known, b) < 0 {
		r.fail(at, "%s %#x is not known", what, b)
	}
	return b
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b)-r.at {
		r.fail(r.at, "it ends too early")
		return nil
	}
	p := r.b[r.at : r.at+n : r.at+n]
	r.at += n
	return p
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() uint32 {
	if r.err == nil && r.at < len(r.b) && r.b[r.at] < 0x80 { // as most are
		r.at++
		return uint32(r.b[r.at-1])
	}
	return r.longU32()
}

func (r *reader) longU32() uint32 {
	start := r.at
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		if shift == 28 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.fail(start, "number too large")
	return 0
}

// skipLEB skips a LEB128 of at most n bytes.
func (r *reader) skipLEB(n int) {
	start := r.at
	for range n {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail(start, "number too long")
}

// s64 reads a signed LEB128 of at most size bytes.
func (r *reader) s64(size int) int64 {
	start := r.at
	var v int64
	for shift := 0; shift < size*7; shift += 7 {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if c&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.fail(start, "number too long")
	return 0
}

// count reads the length of a list whose items have at least one byte each.
func (r *reader) count() int {
	start := r.at
	n := r.u32()
	if int64(n) > int64(len(r.b)-r.at) {
		r.fail(start, "list of %d is longer than the module", n)
		return 0
	}
	return int(n)
}

func (r *reader) name() string { return string(r.bytes(r.count())) }

// index reads an index that must be below limit.
func (r *reader) index(what string, limit int) uint32 {
	start := r.at
	i := r.u32()
	if r.err == nil && int64(i) >= int64(limit) {
		r.fail(start, "%s %d of %d", what, i, limit)
		return 0
	}
	return i
}

// sub returns a reader of the next n bytes, which r skips.
func (r *reader) sub(n int) *reader {
	start := r.at
	if r.bytes(n) == nil && n != 0 {
		return &reader{err: r.err}
	}
	return &reader{b: r.b[:start+n], at: start, err: r.err}
}

func appendU32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

func appendS64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte { return append(appendU32(b, uint32(len(s))), s...) }
