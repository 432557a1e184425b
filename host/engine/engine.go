// Package engine defines what package host needs of a WebAssembly engine, and what
// an engine gets from it. An engine lives in a package of its own beside this one
// and knows nothing of requests, pools or limits.
package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"time"
)

// ValueType is the type of a WebAssembly value, as in the binary format.
type ValueType = byte

// Value types that cross between host and guest.
const (
	I32 ValueType = 0x7f
	I64 ValueType = 0x7e
	F32 ValueType = 0x7d
	F64 ValueType = 0x7c
)

// Func is a function that the host offers to guests. All instances of an engine are
// linked to the same functions.
type Func struct {
	Module, Name string
	Params       []ValueType
	Results      []ValueType // at most one
	// Call runs it. ctx is the CallContext that Function.Call was given, unwrapped.
	// memory is the whole linear memory of the calling instance, good until the guest
	// runs again. The parameters are in stack; the result replaces stack[0]. A panic
	// ends the guest's call, which then returns an error.
	Call func(ctx context.Context, memory []byte, stack []uint64)
}

// Config configures an engine.
type Config struct {
	// CacheDir is the directory in which compiled code is kept. It has passed
	// compilecache.Check. A file in it that is damaged, and a directory that takes no
	// file, cost the time to compile and a line of the log. "": nothing is kept.
	CacheDir string
	// Log gets what goes wrong with the cache.
	Log *slog.Logger
	// Funcs are the host functions that instances can import.
	Funcs []Func
}

// New makes an engine.
type New func(ctx context.Context, config Config) (Engine, error)

// Traits are the ways in which engines differ.
type Traits struct {
	// Interrupts says that the engine itself ends a guest's call, with
	// ErrInterrupted, when its CallContext has no time left. Modules need no fuel then.
	Interrupts bool
	// ImportsGrow says that memory.grow must be the import edge.grow (package
	// prepare), which the engine offers itself: it would not ask its Memory.
	ImportsGrow bool
}

// CallContext is the context of a call to a guest.
type CallContext interface {
	context.Context
	// TimeLeft returns for how long the guest may still compute; 0 or less ends its
	// call. An engine that interrupts asks when the guest begins, each time that it
	// goes on after a call to the host, and every few milliseconds.
	TimeLeft() time.Duration
}

// ErrInterrupted is wrapped by the error of a call that had no time left.
var ErrInterrupted = errors.New("interrupted")

// Engine compiles modules.
type Engine interface {
	// Name returns the engine's name for logs: "wazero".
	Name() string
	// Traits returns the engine's traits, which do not change.
	Traits() Traits
	// Compile compiles a module, which must have passed package prepare, or loads it.
	Compile(ctx context.Context, wasm []byte) (Code, error)
	// Load returns the code of the module that has a SHA-256, as Compile kept it; nil
	// where that is not there, damaged or outdated. A module that cannot be compiled
	// was never kept.
	Load(ctx context.Context, sum [sha256.Size]byte) Code
	// Settle makes the machine code of open modules take less memory, if the engine
	// can do that, while the modules run. It may take as long as it takes to write the
	// code to the cache; when ctx ends, it writes no more and leaves the rest as it is.
	Settle(ctx context.Context)
	// Close frees everything. No instance may be in use.
	Close(ctx context.Context) error
}

// Code is a compiled module.
type Code interface {
	// Start makes an instance, with m as its memory, as the module declares it. None
	// of the module's code has run.
	Start(ctx context.Context, m Memory) (Instance, error)
	// Close frees the compiled code. No instance of it may be in use.
	Close(ctx context.Context) error
}

// Memory is the linear memory of an instance.
type Memory interface {
	// Resize makes the memory size bytes long and returns it, nil when that is not
	// possible. The bytes already there stay; new ones are zero.
	Resize(size uint64) []byte
	// Free is called once, when the instance is closed.
	Free()
}

// Mover is a Memory that can be moved to address space that an engine reserved, for
// engines that cannot be given memory. Start moves it before anything runs.
type Mover interface {
	Memory
	// Len returns how many bytes are in use already.
	Len() int
	// Max returns how many bytes can come into use.
	Max() int
	// Move moves the memory to space, which has Max bytes, of which used, Len at
	// least, are in use. The engine frees space after Free.
	Move(space []byte, used int) error
}

// Instance is an instance of a module. It is used by one goroutine at a time.
type Instance interface {
	// Memory returns the whole linear memory, good until the guest runs.
	Memory() []byte
	// Grow makes the memory size bytes long, as memory.grow of the guest's would, and
	// reports whether it could.
	Grow(size int) bool
	// Function returns an exported function, nil when there is none of that name and
	// type.
	Function(name string, params, results []ValueType) Function
	// Global returns an exported mutable global of a numeric type, nil when there is
	// none.
	Global(name string) Global
	// Close frees the instance and its memory.
	Close(ctx context.Context)
}

// Function is an exported function of an instance.
type Function interface {
	// Call runs it with the parameters in stack, which then holds the result. After an
	// error the instance must be closed.
	Call(ctx CallContext, stack []uint64) error
	// StackSize returns how many bytes of Go's heap the function's calls have taken for
	// their stack up to now, which it keeps: 0 for an engine whose stack is not there.
	// It may be called by host functions.
	StackSize() int
}

// Global is an exported mutable global of an instance, its value as raw bits.
type Global interface {
	Get() uint64
	Set(uint64)
}
