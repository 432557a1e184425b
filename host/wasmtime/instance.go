//go:build wasmtime

package wasmtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/cgo"
	"unsafe"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"partneredge/host/engine"
	"partneredge/host/prepare"
)

// instance is an instance of a module. It is the data of its store, where host functions
// find it.
type instance struct {
	store  *wasmtime.Store
	wasm   *wasmtime.Instance
	memory *wasmtime.Memory
	base   *byte // never moves: wasmtime reserves all that a memory can become
	size   int
	max    int // bytes that the module allows
	moved  engine.Mover
	ctx    engine.CallContext // of the call under way
	stack  []uint64           // room for host functions' parameters
	handle cgo.Handle         // of the instance, for C

	// How the call under way was ended.
	panicked    any // what a host function panicked with
	interrupted bool
}

// Start implements engine.Code.
func (c *code) Start(_ context.Context, m engine.Memory) (engine.Instance, error) {
	mover, ok := m.(engine.Mover)
	if !ok {
		return nil, errors.New("instantiate module: its memory cannot be moved")
	}
	c.engine.mu.RLock()
	defer c.engine.mu.RUnlock()
	if c.engine.closed {
		return nil, fmt.Errorf("instantiate module: %w", errClosed)
	}
	i := &instance{moved: mover}
	i.store = wasmtime.NewStoreWithData(c.engine.engine, i)
	if err := i.start(c); err != nil {
		i.close()
		return nil, fmt.Errorf("instantiate module: %w", err)
	}
	return i, nil
}

func (i *instance) start(c *code) (err error) {
	i.store.SetEpochDeadline(1) // nothing of the module's runs
	if i.wasm, err = c.engine.linker.Instantiate(i.store, c.module); err != nil {
		return err
	}
	export := i.wasm.GetExport(i.store, prepare.ExportMemory)
	if export == nil {
		return errors.New("it has no memory")
	}
	i.memory = export.Memory()
	if limited, pages := i.memory.Type(i.store).Maximum(); limited {
		i.max = int(pages) * pageSize
	}
	i.base = (*byte)(i.memory.Data(i.store))
	i.size = int(i.memory.DataSize(i.store))
	if more := i.moved.Len() - i.size; more > 0 && !i.enlarge(i.store, i.moved.Len()) {
		return fmt.Errorf("memory of %d bytes does not grow by %d", i.size, more)
	}
	if err := i.moved.Move(unsafe.Slice(i.base, i.moved.Max()), i.size); err != nil {
		return err
	}
	return i.setCallback()
}

// enlarge makes wasmtime's memory size bytes long.
func (i *instance) enlarge(store wasmtime.Storelike, size int) bool {
	pages := (size - i.size) / pageSize
	if _, err := i.memory.Grow(store, uint64(pages)); err != nil {
		return false
	}
	i.size = size
	return true
}

func (i *instance) Memory() []byte { return unsafe.Slice(i.base, i.size) }

func (i *instance) Grow(size int) bool {
	return size == i.size || size > i.size && i.moved.Resize(uint64(size)) != nil && i.enlarge(i.store, size)
}

// Close frees the memory's bookkeeping before the memory, which is the store's.
func (i *instance) Close(context.Context) {
	i.moved.Free()
	i.close()
}

func (i *instance) close() {
	i.store.Close()
	if i.handle != 0 {
		i.handle.Delete()
	}
}

func (i *instance) Function(name string, params, results []engine.ValueType) engine.Function {
	export := i.wasm.GetExport(i.store, name)
	if export == nil || export.Func() == nil {
		return nil
	}
	f := export.Func()
	t := f.Type(i.store)
	if !same(t.Params(), params) || !same(t.Results(), results) || len(results) > 1 {
		return nil
	}
	return &function{instance: i, f: f, params: params, args: make([]any, len(params))}
}

func same(types []*wasmtime.ValType, want []engine.ValueType) bool {
	if len(types) != len(want) {
		return false
	}
	for i, t := range types {
		if t.Kind() != kind(want[i]) {
			return false
		}
	}
	return true
}

func (i *instance) Global(name string) engine.Global {
	export := i.wasm.GetExport(i.store, name)
	if export == nil || export.Global() == nil {
		return nil
	}
	g := export.Global()
	t := g.Type(i.store)
	k := t.Content().Kind()
	if !t.Mutable() || k != wasmtime.KindI32 && k != wasmtime.KindI64 && k != wasmtime.KindF32 && k != wasmtime.KindF64 {
		return nil
	}
	return global{i, g, k}
}

type global struct {
	instance *instance
	g        *wasmtime.Global
	kind     wasmtime.ValKind
}

func (g global) Get() uint64 { return number(g.g.Get(g.instance.store).Get()) }

func (g global) Set(v uint64) {
	if err := g.g.Set(g.instance.store, value(g.kind, v)); err != nil {
		panic(err) // it is mutable, and of this type
	}
}

type function struct {
	instance *instance
	f        *wasmtime.Func
	params   []engine.ValueType
	args     []any
}

// StackSize implements engine.Function. Guests run on the thread's stack, up to
// wasmtime's limit of 512 KiB.
func (*function) StackSize() int { return 0 }

// Call implements engine.Function.
func (f *function) Call(ctx engine.CallContext, stack []uint64) error {
	i := f.instance
	i.ctx, i.panicked, i.interrupted = ctx, nil, false
	defer func() { i.ctx = nil }()
	for n, t := range f.params {
		f.args[n] = value(kind(t), stack[n])
	}
	i.setDeadline()
	result, err := f.f.Call(i.store, f.args...)
	if err != nil {
		return i.failure(err)
	}
	if result != nil {
		stack[0] = number(result)
	}
	return nil
}
