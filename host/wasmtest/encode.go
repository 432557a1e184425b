// Package wasmtest assembles WebAssembly modules byte by byte, for tests of what no
// compiler makes.
package wasmtest

import (
	"encoding/binary"
	"slices"
)

// Module returns the module of some sections.
func Module(sections ...[]byte) []byte {
	return slices.Concat([]byte{0, 'a', 's', 'm', 1, 0, 0, 0}, slices.Concat(sections...))
}

// Section returns a section that is a vector of items.
func Section(id byte, items ...[]byte) []byte {
	return RawSection(id, slices.Concat(U(len(items)), slices.Concat(items...)))
}

// RawSection returns a section with any content.
func RawSection(id byte, content []byte) []byte { return slices.Concat([]byte{id}, Sized(content)) }

// Sized returns bytes with their number before them.
func Sized(b []byte) []byte { return slices.Concat(U(len(b)), b) }

// Name returns a name of an import or an export.
func Name(s string) []byte { return Sized([]byte(s)) }

// Export returns an item of the export section. kind is 0 for a function, 1 for a table, 2
// for a memory and 3 for a global.
func Export(name string, kind, index byte) []byte {
	return slices.Concat(Name(name), []byte{kind, index})
}

// Function returns an item of the code section. locals holds their vector.
func Function(locals []byte, code ...[]byte) []byte {
	return Sized(slices.Concat(locals, slices.Concat(code...), []byte{0x0b}))
}

// U returns an unsigned number as LEB128.
func U(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// S returns a signed number as LEB128.
func S(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// I32 returns i32.const.
func I32(v int64) []byte { return slices.Concat([]byte{0x41}, S(int64(int32(v)))) }

// I64 returns i64.const.
func I64(v int64) []byte { return slices.Concat([]byte{0x42}, S(v)) }
