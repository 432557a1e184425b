// Package wazero is the default engine of package host. It needs no cgo, compiles
// modules to machine code ahead of time, and keeps that on disk.
package wazero

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"partneredge/host/engine"
)

// New implements engine.New.
func New(_ context.Context, config engine.Config) (engine.Engine, error) {
	return &wazeroEngine{Config: config, open: map[*code]struct{}{}, free: freeBytes}, nil
}

func memoryOf(m api.Module) []byte {
	mem := m.Memory()
	b, _ := mem.Read(0, mem.Size())
	return b
}

// wazeroEngine gives each module a runtime of its own, and with it a folder of its
// own in the cache: so it is known which file belongs to which module.
type wazeroEngine struct {
	engine.Config

	mu   sync.Mutex
	open map[*code]struct{}
	// mapRefused says that the system maps no machine code from CacheDir.
	mapRefused bool
	free       func(dir string) (int64, error) // how many bytes of a folder's disk may be used
}

func (e *wazeroEngine) Name() string { return "wazero" }

// Traits implements engine.Engine. Interrupting is left to the fuel: a guest must also
// let its thread stop for Go's garbage collector.
func (e *wazeroEngine) Traits() engine.Traits { return engine.Traits{} }

// Compile compiles a module, or loads what was compiled before. Where the cache is
// of no use, the module is compiled without it.
func (e *wazeroEngine) Compile(ctx context.Context, wasm []byte) (engine.Code, error) {
	ctx = experimental.WithCompilationWorkers(ctx, 2) // each may take much memory, and one alone does not heed ctx
	if e.CacheDir == "" {
		return e.compile(ctx, wasm, "")
	}
	sum := sha256.Sum256(wasm)
	if c := e.Load(ctx, sum); c != nil {
		return c, nil
	}
	c, err := e.compileAndKeep(ctx, wasm)
	if err == nil {
		if loaded := e.Load(ctx, sum); loaded != nil { // it holds nothing of the module's own code
			_ = c.Close(ctx)
			return loaded, nil
		}
		return c, nil
	}
	if c == nil {
		without, failed := e.compile(ctx, wasm, "")
		if failed != nil {
			return nil, failed // which is the module's fault
		}
		c = without
	}
	e.Log.Warn("compiled module not kept", "dir", e.dir(sum), "err", err)
	return c, nil
}

// compileAndKeep compiles a module and keeps it. An error with code is that of keeping.
func (e *wazeroEngine) compileAndKeep(ctx context.Context, wasm []byte) (*code, error) {
	dir := filepath.Join(e.CacheDir, "wazero")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	part, err := os.MkdirTemp(dir, "part")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(part)
	c, err := e.compile(ctx, wasm, part)
	if err != nil {
		return nil, err
	}
	return c, e.keep(ctx, wasm, part)
}

// compile compiles a module in a new runtime, with its cache in dir; "" for none.
func (e *wazeroEngine) compile(ctx context.Context, wasm []byte, dir string) (_ *code, err error) {
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	c := &code{engine: e}
	if dir != "" {
		if c.cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return nil, fmt.Errorf("open compile cache: %w", err)
		}
		config = config.WithCompilationCache(c.cache)
	}
	c.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err = link(ctx, c.runtime, e.Funcs); err == nil {
		if c.compiled, err = c.runtime.CompileModule(ctx, wasm); err != nil {
			err = fmt.Errorf("compile module: %w", err)
		}
	}
	if err != nil {
		_ = c.Close(ctx)
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open[c] = struct{}{}
	return c, nil
}

// link gives the modules of a runtime the host's functions.
func link(ctx context.Context, r wazero.Runtime, funcs []engine.Func) error {
	modules := map[string]wazero.HostModuleBuilder{}
	for _, f := range funcs {
		b := modules[f.Module]
		if b == nil {
			b = r.NewHostModuleBuilder(f.Module)
			modules[f.Module] = b
		}
		call := func(ctx context.Context, m api.Module, stack []uint64) { f.Call(ctx, memoryOf(m), stack) }
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(call), f.Params, f.Results).Export(f.Name)
	}
	for name, b := range modules {
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("link host module %s: %w", name, err)
		}
	}
	return nil
}

func (e *wazeroEngine) Close(ctx context.Context) (err error) {
	e.mu.Lock()
	open := slices.Collect(maps.Keys(e.open))
	e.mu.Unlock()
	for _, c := range open {
		err = errors.Join(err, c.Close(ctx))
	}
	return err
}

type code struct {
	engine   *wazeroEngine
	cache    wazero.CompilationCache // nil: none
	runtime  wazero.Runtime
	compiled wazero.CompiledModule // nil: could not be compiled
	dir      string                // the folder that it was loaded from; "": none

	mu     sync.Mutex // held while machine code moves, and by Close
	mapped bool       // machine code was moved to a file, or could not be
}

func (c *code) Close(ctx context.Context) (err error) {
	c.engine.mu.Lock()
	delete(c.engine.open, c)
	c.engine.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mapped = true // there is none any more
	if c.compiled != nil {
		err = c.compiled.Close(ctx)
	}
	err = errors.Join(err, c.runtime.Close(ctx))
	if c.cache != nil {
		err = errors.Join(err, c.cache.Close(ctx))
	}
	return err
}

func (c *code) Start(ctx context.Context, m engine.Memory) (engine.Instance, error) {
	ctx = experimental.WithMemoryAllocator(ctx, allocator{m})
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	module, err := c.runtime.InstantiateModule(ctx, c.compiled, config)
	if err != nil {
		return nil, fmt.Errorf("instantiate module: %w", err)
	}
	return &instance{module}, nil
}

// allocator allocates its one memory.
type allocator struct{ m engine.Memory }

func (a allocator) Allocate(_, _ uint64) experimental.LinearMemory { return memory{a.m} }

type memory struct{ engine.Memory }

func (m memory) Reallocate(size uint64) []byte { return m.Resize(size) }

type instance struct{ module api.Module }

func (i *instance) Memory() []byte { return memoryOf(i.module) }

func (i *instance) Grow(size int) bool {
	m := i.module.Memory()
	more := size>>16 - int(m.Size()>>16)
	if more <= 0 {
		return more == 0
	}
	_, ok := m.Grow(uint32(more))
	return ok
}

func (i *instance) Close(ctx context.Context) { _ = i.module.Close(ctx) }

func (i *instance) Function(name string, params, results []engine.ValueType) engine.Function {
	f := i.module.ExportedFunction(name)
	if f == nil {
		return nil
	}
	if p, r := signature(f); !slices.Equal(p, params) || !slices.Equal(r, results) {
		return nil
	}
	return newFunction(f)
}

func (i *instance) Global(name string) engine.Global {
	g, _ := i.module.ExportedGlobal(name).(api.MutableGlobal)
	return g
}

// signature returns the types of a function's parameters and results. Asked for the first
// definition, wazero makes those of all functions of the module, which stay in Go's heap. So
// the types are read where it keeps them, which is in no API, and it is asked only where
// this version has them elsewhere.
func signature(f api.Function) (params, results []engine.ValueType) {
	v := reflect.ValueOf(f)
	source := field(field(field(v, "parent"), "module"), "Source")
	at, imported := field(v, "indexInModule"), field(source, "ImportFunctionCount")
	ofFunctions, types := field(source, "FunctionSection"), field(source, "TypeSection")
	if at.CanUint() && imported.CanUint() && ofFunctions.Kind() == reflect.Slice && types.Kind() == reflect.Slice {
		if nth := ofFunctions.Index(int(at.Uint() - imported.Uint())); nth.CanUint() {
			t := types.Index(int(nth.Uint()))
			params, ok := valueTypes(field(t, "Params"))
			results, also := valueTypes(field(t, "Results"))
			if ok && also {
				return params, results
			}
		}
	}
	d := f.Definition()
	return d.ParamTypes(), d.ResultTypes()
}

// valueTypes reads a list of wazero's own types of values, which are numbers.
func valueTypes(list reflect.Value) (types []engine.ValueType, ok bool) {
	if list.Kind() != reflect.Slice || list.Type().Elem().Kind() != reflect.Uint64 {
		return nil, false
	}
	for i := range list.Len() {
		types = append(types, engine.ValueType(list.Index(i).Uint()))
	}
	return types, true
}

type function struct {
	f     api.Function
	stack reflect.Value // of type []byte; invalid where this wazero has it elsewhere
}

// newFunction finds the stack that wazero keeps for a function. It is in no API.
func newFunction(f api.Function) function {
	stack := field(reflect.ValueOf(f), "stack")
	if !stack.IsValid() || stack.Type() != reflect.TypeFor[[]byte]() {
		stack = reflect.Value{}
	}
	return function{f, stack}
}

func (f function) StackSize() int {
	if !f.stack.IsValid() {
		return 0
	}
	return f.stack.Len()
}

func (f function) Call(ctx engine.CallContext, stack []uint64) error {
	return f.f.CallWithStack(ctx, stack)
}
