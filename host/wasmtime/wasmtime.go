//go:build wasmtime

package wasmtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"partneredge/host/compilecache"
	"partneredge/host/engine"
	"partneredge/host/prepare"
)

// version of what is kept in a cache directory: the library's, and that of the
// configuration in newConfig.
const version = "44.0.0-2"

// pageSize is the unit of memory, in bytes.
const pageSize = prepare.PageSize

// New implements engine.New. It needs a machine that wasmtime runs on.
func New(_ context.Context, config engine.Config) (engine.Engine, error) {
	e := &wasmtimeEngine{Config: config, engine: wasmtime.NewEngineWithConfig(newConfig()), stop: make(chan struct{})}
	e.linker = wasmtime.NewLinker(e.engine)
	for i := range e.Funcs {
		if err := e.link(&e.Funcs[i]); err != nil {
			e.free()
			return nil, fmt.Errorf("link %s.%s: %w", e.Funcs[i].Module, e.Funcs[i].Name, err)
		}
	}
	grow := engine.Func{Module: prepare.ImportModule, Name: prepare.ImportGrow,
		Params: []engine.ValueType{engine.I32}, Results: []engine.ValueType{engine.I32}}
	if err := e.linker.FuncNew(grow.Module, grow.Name, funcType(&grow), growMemory); err != nil {
		e.free()
		return nil, fmt.Errorf("link %s.%s: %w", grow.Module, grow.Name, err)
	}
	e.epochs.Go(e.countEpochs)
	return e, nil
}

// newConfig returns the configuration for what package prepare accepts: WebAssembly
// 2.0 and no more.
func newConfig() *wasmtime.Config {
	c := wasmtime.NewConfig()
	c.SetEpochInterruption(true)
	c.SetWasmReferenceTypes(true)
	c.SetWasmSIMD(true)
	c.SetWasmBulkMemory(true)
	c.SetWasmMultiValue(true)
	c.SetWasmRelaxedSIMD(false)
	c.SetWasmMultiMemory(false)
	c.SetWasmMemory64(false)
	c.SetWasmTailCall(false)
	c.SetWasmFunctionReferences(false)
	c.SetWasmGC(false)
	c.SetWasmWideArithmetic(false)
	c.SetWasmThreads(false)
	c.SetMemoryInitCOWSet(false) // the sandbox's image is mapped instead
	return c
}

type wasmtimeEngine struct {
	engine.Config
	engine *wasmtime.Engine
	linker *wasmtime.Linker
	epochs sync.WaitGroup // the goroutine that counts them
	stop   chan struct{}

	mu     sync.RWMutex // read-locked while something is used that Close frees
	closed bool
}

func (e *wasmtimeEngine) Name() string { return "wasmtime" }

func (e *wasmtimeEngine) Traits() engine.Traits {
	return engine.Traits{Interrupts: true, ImportsGrow: true}
}

// Settle implements engine.Engine. It does nothing.
func (e *wasmtimeEngine) Settle(context.Context) {}

var errClosed = errors.New("engine closed")

// Close implements engine.Engine. What wasmtime needs for open instances it keeps
// until they are closed.
func (e *wasmtimeEngine) Close(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.stop)
		e.epochs.Wait()
		e.free()
	}
	return nil
}

func (e *wasmtimeEngine) free() {
	e.linker.Close()
	e.engine.Close()
}

// Compile compiles a module, or loads what was compiled before. Whatever is wrong with
// the cache costs time, and nothing else.
func (e *wasmtimeEngine) Compile(ctx context.Context, wasm []byte) (engine.Code, error) {
	sum := sha256.Sum256(wasm)
	if c := e.Load(ctx, sum); c != nil {
		return c, nil
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return nil, fmt.Errorf("compile module: %w", errClosed)
	}
	module, err := wasmtime.NewModule(e.engine, wasm)
	if err != nil {
		return nil, fmt.Errorf("compile module: %w", err)
	}
	if e.CacheDir != "" {
		if err := store(e.path(sum), module); err != nil {
			e.Log.Warn("compiled module not kept", "path", e.path(sum), "err", err)
		}
	}
	return &code{e, module}, nil
}

// path returns where a module is kept.
func (e *wasmtimeEngine) path(sum [sha256.Size]byte) string {
	return filepath.Join(e.CacheDir, "wasmtime-"+version, hex.EncodeToString(sum[:]))
}

// Load implements engine.Engine.
func (e *wasmtimeEngine) Load(_ context.Context, sum [sha256.Size]byte) engine.Code {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.CacheDir == "" || e.closed {
		return nil
	}
	path := e.path(sum)
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	module, err := e.read(path)
	if err != nil {
		e.Log.Warn("compiled module in the cache is damaged, compiling it anew", "err", errors.Join(err, compilecache.Remove(path)))
		return nil
	}
	return &code{e, module}
}

// read reads a compiled module. wasmtime does not find every damage itself, and would
// run what it does not find.
func (e *wasmtimeEngine) read(path string) (*wasmtime.Module, error) {
	kept, err := compilecache.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return wasmtime.NewModuleDeserialize(e.engine, kept) // a file of another machine is refused
}

// store keeps a compiled module.
func store(path string, module *wasmtime.Module) error {
	compiled, err := module.Serialize()
	if err != nil {
		return err
	}
	return compilecache.WriteFile(path, compiled)
}

type code struct {
	engine *wasmtimeEngine
	module *wasmtime.Module
}

func (c *code) Close(context.Context) error {
	c.module.Close()
	return nil
}
