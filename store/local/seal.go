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
// So a bit that flips in a scope or an allowlist is found when the file is opened,
// and the record is never served.
const (
	sealSize = 5
	layout   = 1
)

// checksum returns the CRC-32C of a key and a value without its own four bytes.
func checksum(key, value []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // made once by the library
	return crc32.Update(crc32.Update(0, table, key), table, value[4:])
}

// newValue starts a value; seal ends it.
func newValue(size int) []byte {
	return append(make([]byte, 4, sealSize+size), layout)
}

func seal(key string, b []byte) string {
	binary.LittleEndian.PutUint32(b, checksum([]byte(key), b))
	return string(b)
}

// sealed reports whether b is the key's whole value, of the layout that this code
// reads.
func sealed(key, b []byte) bool {
	return len(b) >= sealSize && b[4] == layout &&
		binary.LittleEndian.Uint32(b) == checksum(key, b)
}

func putInt(b []byte, i int64) []byte { return binary.LittleEndian.AppendUint64(b, uint64(i)) }

func putText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

// fields reads the fields of a sealed value in order. After the first that is
// missing, bad is true and all are zero. Texts share the value's memory.
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

func (f *fields) next(n uint64) string {
	if f.bad || n > uint64(len(f.rest)) {
		f.bad, f.rest = true, ""
		return ""
	}
	s := f.rest[:n]
	f.rest = f.rest[n:]
	return s
}

func (f *fields) int() int64 {
	if s := f.next(8); s != "" {
		return int64(binary.LittleEndian.Uint64([]byte(s)))
	}
	return 0
}

func (f *fields) text() string {
	if s := f.next(4); s != "" {
		return f.next(uint64(binary.LittleEndian.Uint32([]byte(s))))
	}
	return ""
}
