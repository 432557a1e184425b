// Package wasmtime is the module host's other engine: wasmtime, by its C API
// and so with cgo. It is there with the build tag wasmtime.
//
//	host.New(ctx, host.Config{Engine: wasmtime.New})
//
// It answers every request as the default engine does, byte for byte. Guests
// spend no fuel: every other millisecond, which one goroutine counts as epochs,
// wasmtime asks how long the guest may still go on.
//
// Memory is wasmtime's own, with the sandbox's image mapped over it, so it is
// reset as under the default engine.
package wasmtime
