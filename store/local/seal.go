package local

import (
	"encoding/binary"
	"hash/crc32"
)

// Every value on disk is sealed:
//
//	offset size
//	0      4    CRC-32C of the key and of all that follows, little endian
//	4      1    layout of what follows, 1
//	5           fields; integers little endian, texts a u32 length and bytes
//
// A bit that flips in a scope or an allowlist is thereby found when the file is
// opened, and never served.
const (
	sealSize = 5
	layout   = 1
)

func castagnoli(p ...[]byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once by the library
	var sum uint32
	for _, b := range p {
		sum = crc32.Update(sum, table, b)
	}
	return sum
}

// newValue starts a value; seal ends it.
func newValue(size int) []byte {
	return append(make([]byte, 0, sealSize+size), 0, 0, 0, 0, layout)
}

func seal(key string, b []byte) string {
	binary.LittleEndian.PutUint32(b, castagnoli([]byte(key), b[4:]))
	return string(b)
}

// sealed tells whether b is the key's whole value, of a layout this code reads.
func sealed(key, b []byte) bool {
	return len(b) >= sealSize && b[4] == layout &&
		binary.LittleEndian.Uint32(b) == castagnoli(key, b[4:])
}

func putInt(b []byte, i int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(i)) }

func putText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

// fields takes fields off a sealed value in order. After the first that is not
// there, bad is true and all are zero. Texts share the value's memory.
type fields struct {
	rest string
	bad  bool
}

func openValue(v string) fields {
	if len(v) < sealSize {
		return fields{bad: true}
	}
	return fields{rest: v[sealSize:]}
}

func (f *fields) take(n uint64) string {
	if f.bad || n > uint64(len(f.rest)) {
		f.bad, f.rest = true, ""
		return ""
	}
	s := f.rest[:n]
	f.rest = f.rest[n:]
	return s
}

func (f *fields) int() int64 {
	if s := f.take(8); s != "" {
		return int64(binary.LittleEndian.Uint64([]byte(s)))
	}
	return 0
}

func (f *fields) text() string {
	if s := f.take(4); s != "" {
		return f.take(uint64(binary.LittleEndian.Uint32([]byte(s))))
	}
	return ""
}
