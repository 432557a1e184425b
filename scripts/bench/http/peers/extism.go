package main

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"

	"partneredge/wasm/abi"
)

// openExtism serves by extism's SDK as its documentation has it for servers: a plug-in
// that is compiled once, and an instance of its own for each request, which ends at the
// manifest's deadline.
func openExtism(ctx context.Context, guest []byte) (http.Handler, error) {
	manifest := extism.Manifest{
		Wasm:    []extism.Wasm{extism.WasmData{Data: guest}},
		Memory:  &extism.ManifestMemory{MaxPages: maxPages, MaxHttpResponseBytes: -1, MaxVarBytes: -1},
		Timeout: uint64(wall.Milliseconds()),
	}
	compiled, err := extism.NewCompiledPlugin(ctx, manifest, extism.PluginConfig{EnableWasi: true}, nil)
	return front(plugins{compiled}), err
}

type plugins struct{ compiled *extism.CompiledPlugin }

// Call implements httpfront.Caller.
func (p plugins) Call(ctx context.Context, req *abi.Request, resp *abi.Response) error {
	config := wazero.NewModuleConfig().WithRandSource(rand.Reader)
	plugin, err := p.compiled.Instance(ctx, extism.PluginInstanceConfig{ModuleConfig: config})
	if err != nil {
		return err
	}
	defer func() { _ = plugin.CloseWithContext(ctx) }()
	code, output, err := plugin.CallWithContext(ctx, "handle", req.Append(nil))
	switch {
	case err != nil:
		return err
	case code != 0:
		return errors.New(plugin.GetErrorWithContext(ctx))
	}
	return resp.ParseCopy(output)
}
