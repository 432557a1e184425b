// Package wazero is the default engine of package host. It needs no cgo, compiles
// modules to machine code ahead of time, and keeps that on disk.
package wazero

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"partneredge/host/engine"
)

// New implements engine.New.
func New(ctx context.Context, cacheDir string, funcs []engine.Func) (engine.Engine, error) {
	config := wazero.NewRuntimeConfigCompiler().WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	e := &wazeroEngine{}
	if cacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
		if err != nil {
			return nil, fmt.Errorf("open compile cache: %w", err)
		}
		e.cache = cache
		config = config.WithCompilationCache(cache)
	}
	e.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	modules := map[string]wazero.HostModuleBuilder{}
	for _, f := range funcs {
		b := modules[f.Module]
		if b == nil {
			b = e.runtime.NewHostModuleBuilder(f.Module)
			modules[f.Module] = b
		}
		b.NewFunctionBuilder().WithGoModuleFunction(hostFunc(f.Call), f.Params, f.Results).Export(f.Name)
	}
	for name, b := range modules {
		if _, err := b.Instantiate(ctx); err != nil {
			_ = e.Close(ctx)
			return nil, fmt.Errorf("link host module %s: %w", name, err)
		}
	}
	return e, nil
}

func hostFunc(call func(context.Context, []byte, []uint64)) api.GoModuleFunc {
	return func(ctx context.Context, m api.Module, stack []uint64) { call(ctx, bytes(m), stack) }
}

func bytes(m api.Module) []byte {
	mem := m.Memory()
	b, _ := mem.Read(0, mem.Size())
	return b
}

type wazeroEngine struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache // nil: none
}

func (e *wazeroEngine) Name() string { return "wazero" }

// Traits implements engine.Engine. Interrupting is left to the fuel: a guest must also
// let its thread stop for Go's garbage collector.
func (e *wazeroEngine) Traits() engine.Traits { return engine.Traits{} }

func (e *wazeroEngine) Compile(ctx context.Context, wasm []byte) (engine.Code, error) {
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	compiled, err := e.runtime.CompileModule(ctx, wasm)
	if err != nil {
		return nil, fmt.Errorf("compile module: %w", err)
	}
	return &code{e.runtime, compiled}, nil
}

func (e *wazeroEngine) Close(ctx context.Context) error {
	err := e.runtime.Close(ctx)
	if e.cache != nil {
		err = errors.Join(err, e.cache.Close(ctx))
	}
	return err
}

type code struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

func (c *code) Close(ctx context.Context) error { return c.compiled.Close(ctx) }

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

func (i *instance) Memory() []byte { return bytes(i.module) }

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
	d := f.Definition()
	if !slices.Equal(d.ParamTypes(), params) || !slices.Equal(d.ResultTypes(), results) {
		return nil
	}
	return function{f}
}

func (i *instance) Global(name string) engine.Global {
	g, _ := i.module.ExportedGlobal(name).(api.MutableGlobal)
	if g == nil {
		return nil
	}
	return g
}

type function struct{ f api.Function }

func (f function) Call(ctx engine.CallContext, stack []uint64) error {
	return f.f.CallWithStack(ctx, stack)
}
