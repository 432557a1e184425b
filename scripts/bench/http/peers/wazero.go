package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"partneredge/wasm/abi"
)

// openWazero serves by wazero as its documentation has it: compiled once, and an
// instance of its own for each request, which its context's end closes.
func openWazero(ctx context.Context, guest []byte) (http.Handler, error) {
	config := wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithMemoryLimitPages(maxPages)
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	_, err := runtime.NewHostModuleBuilder(abi.ImportModule).
		NewFunctionBuilder().WithFunc(func(op, at, n, out, room int32) int32 { return int32(abi.CodeDenied) }).Export(abi.ImportCall).
		NewFunctionBuilder().WithFunc(func(level, at, n int32) {}).Export(abi.ImportLog).
		Instantiate(ctx)
	if err != nil {
		return nil, err
	}
	compiled, err := runtime.CompileModule(ctx, guest)
	return front(freshInstances{runtime, compiled}), err
}

type freshInstances struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
}

var errMemory = errors.New("the guest named memory that it does not have")

// Call implements httpfront.Caller.
func (f freshInstances) Call(ctx context.Context, req *abi.Request, resp *abi.Response) error {
	ctx, cancel := context.WithTimeout(ctx, wall)
	defer cancel()
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithRandSource(rand.Reader)
	instance, err := f.runtime.InstantiateModule(ctx, f.compiled, config)
	if err != nil {
		return err
	}
	defer func() { _ = instance.Close(ctx) }()
	input, err := instance.ExportedFunction(abi.ExportInput).Call(ctx)
	if err != nil {
		return err
	}
	frame := req.Append(nil)
	if !instance.Memory().Write(uint32(input[0]>>32), frame) {
		return errMemory
	}
	output, err := instance.ExportedFunction(abi.ExportHandle).Call(ctx, api.EncodeI32(int32(len(frame))))
	if err != nil {
		return err
	}
	answer, ok := instance.Memory().Read(uint32(output[0]>>32), uint32(output[0]))
	if !ok {
		return errMemory
	}
	return resp.ParseCopy(answer)
}
