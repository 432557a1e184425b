//go:build wasmtime

package wasmtime

import (
	"errors"
	"fmt"
	"math"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"partneredge/host/engine"
)

// kind returns wasmtime's name of a type, which for an unknown one is no kind of a
// number.
func kind(t engine.ValueType) wasmtime.ValKind {
	switch t {
	case engine.I32:
		return wasmtime.KindI32
	case engine.I64:
		return wasmtime.KindI64
	case engine.F32:
		return wasmtime.KindF32
	case engine.F64:
		return wasmtime.KindF64
	}
	return wasmtime.KindExternref
}

// value returns the value of a numeric kind that has these bits.
func value(k wasmtime.ValKind, bits uint64) wasmtime.Val {
	switch k {
	case wasmtime.KindI32:
		return wasmtime.ValI32(int32(bits))
	case wasmtime.KindI64:
		return wasmtime.ValI64(int64(bits))
	case wasmtime.KindF32:
		return wasmtime.ValF32(math.Float32frombits(uint32(bits)))
	}
	return wasmtime.ValF64(math.Float64frombits(bits))
}

// number returns the bits of a number.
func number(v any) uint64 {
	switch v := v.(type) {
	case int32:
		return uint64(uint32(v))
	case int64:
		return uint64(v)
	case float32:
		return uint64(math.Float32bits(v))
	case float64:
		return math.Float64bits(v)
	}
	return 0
}

func funcType(f *engine.Func) *wasmtime.FuncType {
	list := func(types []engine.ValueType) []*wasmtime.ValType {
		out := make([]*wasmtime.ValType, len(types))
		for i, t := range types {
			out[i] = wasmtime.NewValType(kind(t))
		}
		return out
	}
	return wasmtime.NewFuncType(list(f.Params), list(f.Results))
}

// link offers a function to every instance.
func (e *wasmtimeEngine) link(f *engine.Func) error {
	call := f.Call
	results := make([]wasmtime.ValKind, len(f.Results))
	for i, t := range f.Results {
		results[i] = kind(t)
	}
	return e.linker.FuncNew(f.Module, f.Name, funcType(f),
		func(caller *wasmtime.Caller, args []wasmtime.Val) (out []wasmtime.Val, trap *wasmtime.Trap) {
			i := caller.Data().(*instance)
			defer func() {
				if i.panicked = recover(); i.panicked != nil {
					trap = wasmtime.NewTrap("ended by the host")
				}
			}()
			stack := append(i.stack[:0], make([]uint64, max(len(args), 1))...)
			for n, a := range args {
				stack[n] = number(a.Get())
			}
			i.stack = stack
			call(i.ctx, i.Memory(), stack)
			i.setDeadline() // the time that the host took is not the guest's
			for _, k := range results {
				out = append(out, value(k, stack[0]))
			}
			return out, nil
		})
}

// growMemory implements edge.grow: memory.grow, if the sandbox allows it.
func growMemory(caller *wasmtime.Caller, args []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
	i := caller.Data().(*instance)
	before := i.size / pageSize
	size := i.size + int(uint32(args[0].I32()))*pageSize
	if size > i.max || i.moved.Resize(uint64(size)) == nil || !i.enlarge(caller, size) {
		before = -1
	}
	return []wasmtime.Val{wasmtime.ValI32(int32(before))}, nil
}

// failure returns the error of a guest's call for which wasmtime returned err.
func (i *instance) failure(err error) error {
	switch p := i.panicked.(type) {
	case nil:
	case error:
		return p
	default:
		return fmt.Errorf("host function panicked: %v", p)
	}
	if i.interrupted {
		return engine.ErrInterrupted
	}
	trap, ok := errors.AsType[*wasmtime.Trap](err)
	if !ok || trap.Code() == nil {
		return err
	}
	if name, ok := traps[*trap.Code()]; ok {
		return errors.New(name)
	}
	return fmt.Errorf("trap %d", *trap.Code())
}

// traps names the ways in which a guest can do what WebAssembly forbids.
var traps = map[wasmtime.TrapCode]string{
	wasmtime.StackOverflow:          "stack overflow",
	wasmtime.MemoryOutOfBounds:      "out of bounds memory access",
	wasmtime.TableOutOfBounds:       "out of bounds table access",
	wasmtime.IndirectCallToNull:     "indirect call to null",
	wasmtime.BadSignature:           "indirect call type mismatch",
	wasmtime.IntegerOverflow:        "integer overflow",
	wasmtime.IntegerDivisionByZero:  "integer divide by zero",
	wasmtime.BadConversionToInteger: "invalid conversion to integer",
	wasmtime.UnreachableCodeReached: "unreachable",
}
