package hostile

import (
	"bytes"
	"encoding/binary"
	"slices"

	"partneredge/host/wasmtest"
)

// freeAt is from where on all of a guest's memory is its own.
const freeAt = 0x20000

// Locals of the attack; the first is the parameter.
const (
	a = 1 + iota
	b
)

func num(v int64) []byte         { return wasmtest.I32(v) }
func get(local byte) []byte      { return []byte{0x20, local} }
func set(local byte) []byte      { return []byte{0x21, local} }
func call(function byte) []byte  { return []byte{0x10, function} }
func join(code ...[]byte) []byte { return slices.Concat(code...) }

// repeat returns code n times.
func repeat(n int, code ...[]byte) []byte { return bytes.Repeat(join(code...), n) }

// add adds to a local.
func add(local byte, n int64) []byte { return join(get(local), num(n), []byte{0x6a}, set(local)) }

// forever runs code without end.
func forever(code ...[]byte) []byte {
	return join([]byte{0x03, 0x40}, join(code...), []byte{0x0c, 0, 0x0b})
}

// times runs code n times, counted in a local.
func times(local byte, n int64, code ...[]byte) []byte {
	return join(num(0), set(local), []byte{0x03, 0x40}, join(code...), add(local, 1),
		get(local), num(n), []byte{0x49, 0x0d, 0, 0x0b})
}

// block is code that a branch leaves.
func block(code ...[]byte) []byte { return join([]byte{0x02, 0x40}, join(code...), []byte{0x0b}) }

// when runs code if the condition before it holds.
func when(code ...[]byte) []byte { return join([]byte{0x04, 0x40}, join(code...), []byte{0x0b}) }

// loads are n loads, each of which needs the one before.
func loads(local byte, n int) []byte {
	return join(get(local), bytes.Repeat([]byte{0x28, 2, 0}, n), set(local))
}

// store is an i32.store of 1 at the address in a local, plus offset.
func store(local byte, offset uint64) []byte {
	return join(get(local), num(1), []byte{0x36, 0}, binary.AppendUvarint(nil, offset))
}

// guest is the code of a module.
type guest struct {
	pages  int    // of memory
	start  []byte // of _initialize
	attack []byte // of edge_handle, for a request with a long body
	self   []byte // of the function Self; nil: it returns its parameter
	data   int    // bytes of a passive segment
}

// longRequest is the length of a frame from which on a guest attacks.
const longRequest = 1000

// assemble returns the module, which answers a short request with status 200.
func (g guest) assemble() []byte {
	return wasmtest.Guest{
		Pages: g.pages, Start: g.start, Self: g.self, Answer: []byte("honest"), Data: make([]byte, g.data),
		Handle: join(get(0), num(longRequest), []byte{0x4a}, when(g.attack)),
	}.Assemble()
}
