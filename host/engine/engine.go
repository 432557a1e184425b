// Package engine says what the module host asks of a WebAssembly engine, and
// what it offers to one. An engine lives in a package of its own beside this
// one and knows nothing of requests, pools or limits.
package engine

import (
	"context"
	"errors"
	"time"
)

// ValueType is the type of a WebAssembly value, as the binary format has it.
type ValueType byte

// Value types that cross between host and guest.
const (
	I32 ValueType = 0x7f
	I64 ValueType = 0x7e
	F32 ValueType = 0x7d
	F64 ValueType = 0x7c
)

// Func is a function that the host offers to guests. The same set is linked
// to every instance of an engine.
type Func struct {
	Module, Name string
	Params       []ValueType
	Results      []ValueType // at most one
	// Call runs it. ctx is the one that Instance.Call was given, unwrapped, so
	// a caller may find its own state behind it. memory is the whole memory of
	// the calling instance, good until the guest runs again. The parameters
	// are in stack; the result replaces stack[0]. A panic ends the guest's
	// call, which then returns an error.
	Call func(ctx context.Context, memory []byte, stack []uint64)
}

// New makes an engine whose instances see funcs. Compiled code is kept in the
// directory cacheDir, which only the program may be able to write; "" keeps
// none.
type New func(ctx context.Context, cacheDir string, funcs []Func) (Engine, error)

// Traits are what an engine does in a way of its own.
type Traits struct {
	// Interrupts tells that a guest's call ends with ErrInterrupted when the
	// Meter that it was called with says so. Modules need no fuel then.
	Interrupts bool
	// ImportsGrow says that memory.grow must be the import edge.grow (package
	// prepare), which the engine offers itself: it would not ask its Memory.
	ImportsGrow bool
}

// Meter is the context of every call to a guest: it knows how long that may go
// on. An engine that interrupts asks it when the guest begins, each time that
// the guest goes on after a call to the host, and every few milliseconds.
type Meter interface {
	context.Context
	// Left is for how long the guest may still compute; 0 or less ends its call.
	Left() time.Duration
}

// ErrInterrupted is wrapped by the error of a call that went on for longer than
// its Meter allowed.
var ErrInterrupted = errors.New("interrupted")

// Engine compiles modules.
type Engine interface {
	// Name of the engine, for logs: "wazero".
	Name() string
	// Traits of the engine. They do not change.
	Traits() Traits
	// Compile readies a module. The module must have passed package prepare.
	Compile(ctx context.Context, wasm []byte) (Code, error)
	// Close frees everything. No instance may be in use.
	Close(ctx context.Context) error
}

// Code is a compiled module.
type Code interface {
	// Start makes an instance, which has a memory, just as the module declares it. None of the
	// module's code has run.
	Start(ctx context.Context, m Memory) (Instance, error)
	// Close frees the compiled code. No instance of it may be in use.
	Close(ctx context.Context) error
}

// Memory gives an instance its linear memory.
type Memory interface {
	// Resize makes the memory size bytes long and returns it, nil when it
	// cannot be. The bytes already there stay. New bytes are zero.
	Resize(size uint64) []byte
	// Free is called once, when the instance is closed.
	Free()
}

// Mover is a Memory that an engine can move to where it has room itself, because
// it cannot be given memory. Start moves it before anything runs.
type Mover interface {
	Memory
	// Len is how many bytes are in use already.
	Len() int
	// Max is the most bytes that can be.
	Max() int
	// Move makes room the memory from now on; it has Max bytes, used of which,
	// Len at least, are in use. The engine frees it after Free.
	Move(room []byte, used int) error
}

// Instance is an instance of a module. It is used by one goroutine at a time.
type Instance interface {
	// Memory is the whole linear memory. It is good until the guest runs.
	Memory() []byte
	// Grow makes memory size bytes long, as memory.grow of the guest's would.
	Grow(size int) bool
	// Function is an exported function, nil when there is none of that name
	// and type.
	Function(name string, params, results []ValueType) Function
	// Global is an exported global of an integer or float type, nil when there
	// is none.
	Global(name string) Global
	// Close frees the instance, and its memory.
	Close(ctx context.Context)
}

// Function is an exported function of an instance.
type Function interface {
	// Call runs it with the parameters in stack, which then holds the result.
	// The instance is to be closed after an error.
	Call(ctx context.Context, stack []uint64) error
}

// Global is an exported mutable global of an instance, its value as raw bits.
type Global interface {
	Get() uint64
	Set(uint64)
}
