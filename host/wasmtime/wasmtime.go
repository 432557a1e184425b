//go:build wasmtime

package wasmtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
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

// Compile compiles a module, or loads what was compiled before.
func (e *wasmtimeEngine) Compile(_ context.Context, wasm []byte) (engine.Code, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return nil, fmt.Errorf("compile module: %w", errClosed)
	}
	module, err := e.cached(wasm)
	if err != nil {
		return nil, fmt.Errorf("compile module: %w", err)
	}
	return &code{e, module}, nil
}

// cached loads what was compiled before, or compiles the module and keeps it.
// Whatever is wrong with the cache costs time, and nothing else.
func (e *wasmtimeEngine) cached(wasm []byte) (*wasmtime.Module, error) {
	if e.CacheDir == "" {
		return wasmtime.NewModule(e.engine, wasm)
	}
	sum := sha256.Sum256(wasm)
	path := filepath.Join(e.CacheDir, "wasmtime-"+version, hex.EncodeToString(sum[:]))
	module, err := e.load(path)
	if err == nil {
		return module, nil
	}
	var damage error
	if !errors.Is(err, fs.ErrNotExist) {
		damage = errors.Join(err, compilecache.Remove(path))
	}
	if module, err = wasmtime.NewModule(e.engine, wasm); err != nil {
		return nil, err
	}
	if err := store(path, module); err != nil {
		e.Log.Warn("compile cache of no use, module compiled without it", "path", path, "err", errors.Join(damage, err))
	} else if damage != nil {
		e.Log.Warn("compiled module in the cache is damaged, compiling it anew", "err", damage)
	}
	return module, nil
}

// load loads a compiled module; the error is fs.ErrNotExist if there is none.
// wasmtime does not find every damage itself, and would run what it does not find.
func (e *wasmtimeEngine) load(path string) (*wasmtime.Module, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	kept, err := compilecache.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return wasmtime.NewModuleDeserialize(e.engine, kept) // a file of another machine is refused
}

// store writes compiled code to a file that others find whole or not at all.
func store(path string, module *wasmtime.Module) error {
	compiled, err := module.Serialize()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "part")
	if err != nil {
		return err
	}
	_, err = temp.Write(compiled)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return err
	}
	return compilecache.Record(path)
}

type code struct {
	engine *wasmtimeEngine
	module *wasmtime.Module
}

func (c *code) Close(context.Context) error {
	c.module.Close()
	return nil
}
