package wasmtest

import (
	"slices"

	"partneredge/wasm/abi"
)

// Where things lie in a Guest's memory.
const (
	AnswerAt = 0x400 // the frame of its answer
	InputAt  = 0x1000
)

// Functions of a Guest, the imported ones first.
const (
	Call       = iota // edge.call(op, in, n, out, room) -> i32
	Log               // edge.log(level, text, n)
	Write             // fd_write(fd, vectors, n, written) -> errno
	Poll              // poll_oneoff(in, out, n, events) -> errno
	Random            // random_get(buffer, n) -> errno
	Input             // edge_input
	Handle            // edge_handle
	Self              // (i32) -> i32
	initialize        // _initialize
)

// Guest is a module that keeps to the ABI, but for the code that it is given. Each of
// its functions has two i32 locals after its parameters. It has a mutable i32 global 0
// and a v128 global 1, a table of 4 functions and a passive element segment 1.
type Guest struct {
	Pages  int    // of memory
	Start  []byte // code of _initialize
	Handle []byte // code of edge_handle; behind it the guest answers 200 with Answer
	Self   []byte // code of the function Self; nil: it returns its parameter
	Answer []byte // body of the answer
	Data   []byte // passive segment 1
}

// frame returns the answer as it lies in memory.
func (g Guest) frame() []byte {
	answer := abi.Response{Status: 200, Body: g.Answer}
	return answer.Append(nil)
}

// BodyAt returns where the answer's body lies in memory.
func (g Guest) BodyAt() int { return AnswerAt + len(g.frame()) - len(g.Answer) }

// Assemble returns the module.
func (g Guest) Assemble() []byte {
	const (
		i32, i64        = 0x7f, 0x7e
		function        = 0x60
		kindFunc        = 0
		kindMemory      = 2
		wasi            = "wasi_snapshot_preview1"
		toI64, i32ToI64 = 0, 1 // places in the type section
		toNothing       = 6
		i32ToI32        = 7
	)
	imported := func(module, name string, kind byte) []byte {
		return slices.Concat(Name(module), Name(name), []byte{kindFunc, kind})
	}
	locals := []byte{1, 2, i32}
	frame, self := g.frame(), g.Self
	if self == nil {
		self = []byte{0x20, 0} // local.get 0
	}
	return Module(
		Section(1,
			[]byte{function, 0, 1, i64},
			[]byte{function, 1, i32, 1, i64},
			[]byte{function, 5, i32, i32, i32, i32, i32, 1, i32},
			[]byte{function, 3, i32, i32, i32, 0},
			[]byte{function, 4, i32, i32, i32, i32, 1, i32},
			[]byte{function, 2, i32, i32, 1, i32},
			[]byte{function, 0, 0},
			[]byte{function, 1, i32, 1, i32}),
		Section(2,
			imported(abi.ImportModule, abi.ImportCall, 2),
			imported(abi.ImportModule, abi.ImportLog, 3),
			imported(wasi, "fd_write", 4),
			imported(wasi, "poll_oneoff", 4),
			imported(wasi, "random_get", 5)),
		Section(3, []byte{toI64}, []byte{i32ToI64}, []byte{i32ToI32}, []byte{toNothing}),
		Section(4, []byte{0x70, 0, 4}),
		Section(5, slices.Concat([]byte{0}, U(g.Pages))),
		Section(6,
			[]byte{i32, 1, 0x41, 0, 0x0b},
			slices.Concat([]byte{0x7b, 1, 0xfd, 0x0c}, make([]byte, 16), []byte{0x0b})),
		Section(7,
			Export("memory", kindMemory, 0),
			Export(abi.ExportInput, kindFunc, Input),
			Export(abi.ExportHandle, kindFunc, Handle),
			Export("_initialize", kindFunc, initialize)),
		Section(9,
			[]byte{0, 0x41, 0, 0x0b, 1, Input}, // active: at 0
			[]byte{1, 0, 1, Handle}),           // passive
		RawSection(12, []byte{2}),
		Section(10,
			Function(locals, I64(InputAt<<32|abi.InputSize)),
			Function(locals, g.Handle, I64(AnswerAt<<32|int64(len(frame)))),
			Function(locals, self),
			Function(locals, g.Start)),
		Section(11,
			slices.Concat([]byte{0}, I32(AnswerAt), []byte{0x0b}, Sized(frame)),
			slices.Concat([]byte{1}, Sized(g.Data))))
}
