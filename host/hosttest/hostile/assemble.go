package hostile

import (
	"bytes"
	"encoding/binary"
	"slices"

	"partneredge/wasm/abi"
)

// Where things lie in a guest's memory.
const (
	answerAt = 0x400
	inputAt  = 0x1000
	freeAt   = 0x20000 // everything from here on is the guest's own
)

// Functions of a guest, the imported ones first.
const (
	fnCall   = iota // edge.call(op, in, n, out, room) -> i32
	fnLog           // edge.log(level, text, n)
	fnPoll          // poll_oneoff(in, out, n, events) -> errno
	fnRandom        // random_get(buffer, n) -> errno
	fnInput
	fnHandle
	fnSelf // (i32) -> i32: what a guest brings beside its attack
)

// Locals of the attack; the first is the parameter.
const (
	a = 1 + iota
	b
)

func leb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func sleb(v int64) (out []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(out, c)
		}
		out = append(out, c|0x80)
	}
}

func num(v int64) []byte         { return append([]byte{0x41}, sleb(int64(int32(v)))...) }
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
	return join(get(local), num(1), []byte{0x36, 0}, leb(offset))
}

// guest is the code of a module.
type guest struct {
	pages  int    // of memory
	start  []byte // of _initialize
	attack []byte // of edge_handle, for a request with a long body
	self   []byte // of fnSelf; nil: it returns its parameter
	data   int    // bytes of a passive segment
}

// longRequest is the length of a frame from which on a guest attacks.
const longRequest = 1000

// assemble returns the module, which answers a short request with status 200.
func (g guest) assemble() []byte {
	response := abi.Response{Status: 200, Body: []byte("honest")}
	frame := response.Append(nil)
	section := func(id byte, items ...[]byte) []byte {
		content := join(leb(uint64(len(items))), join(items...))
		return join([]byte{id}, leb(uint64(len(content))), content)
	}
	name := func(s string) []byte { return append(leb(uint64(len(s))), s...) }
	code := func(body []byte) []byte {
		full := join([]byte{1, 2, 0x7f}, body, []byte{0x0b})
		return join(leb(uint64(len(full))), full)
	}
	constant := func(v int64) []byte { return append([]byte{0x42}, sleb(v)...) }
	self := g.self
	if self == nil {
		self = get(0)
	}
	imported := func(module, function string, kind byte) []byte {
		return join(name(module), name(function), []byte{0, kind})
	}
	return join([]byte{0, 'a', 's', 'm', 1, 0, 0, 0},
		section(1,
			[]byte{0x60, 0, 1, 0x7e},
			[]byte{0x60, 1, 0x7f, 1, 0x7e},
			[]byte{0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f},
			[]byte{0x60, 3, 0x7f, 0x7f, 0x7f, 0},
			[]byte{0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f},
			[]byte{0x60, 2, 0x7f, 0x7f, 1, 0x7f},
			[]byte{0x60, 0, 0},
			[]byte{0x60, 1, 0x7f, 1, 0x7f}),
		section(2,
			imported(abi.ImportModule, abi.ImportCall, 2),
			imported(abi.ImportModule, abi.ImportLog, 3),
			imported("wasi_snapshot_preview1", "poll_oneoff", 4),
			imported("wasi_snapshot_preview1", "random_get", 5)),
		section(3, []byte{0}, []byte{1}, []byte{7}, []byte{6}),
		section(4, []byte{0x70, 0, 4}),
		section(5, join([]byte{0}, leb(uint64(g.pages)))),
		section(7,
			join(name("memory"), []byte{2, 0}),
			join(name(abi.ExportInput), []byte{0, fnInput}),
			join(name(abi.ExportHandle), []byte{0, fnHandle}),
			join(name("_initialize"), []byte{0, fnSelf + 1})),
		[]byte{12, 1, 2},
		section(10,
			code(constant(inputAt<<32|abi.InputSize)),
			code(join(get(0), num(longRequest), []byte{0x4a}, when(g.attack), constant(answerAt<<32|int64(len(frame))))),
			code(self),
			code(g.start)),
		section(11,
			join([]byte{0}, num(answerAt), []byte{0x0b}, leb(uint64(len(frame))), frame),
			join([]byte{1}, leb(uint64(g.data)), make([]byte, g.data))))
}
