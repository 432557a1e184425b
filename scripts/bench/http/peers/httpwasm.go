package main

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/http-wasm/http-wasm-host-go/handler"
	wasm "github.com/http-wasm/http-wasm-host-go/handler/nethttp"
	"github.com/tetratelabs/wazero"
)

// openHTTPWasm serves by http-wasm's middleware for net/http, which keeps the instances
// that have answered a request for others. It offers no deadline and no other way.
func openHTTPWasm(ctx context.Context, guest []byte) (http.Handler, error) {
	config := wazero.NewModuleConfig().WithStartFunctions("_initialize").WithRandSource(rand.Reader)
	middleware, err := wasm.NewMiddleware(ctx, guest, handler.ModuleConfig(config))
	if err != nil {
		return nil, err
	}
	return middleware.NewHandler(ctx, http.NotFoundHandler()), nil
}
