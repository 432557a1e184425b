// Package wasmtime is the other engine of package host, by wasmtime's C API and so
// with cgo. It needs the build tag wasmtime, and is the default then.
//
// It answers every request as package wazero does, byte for byte. Guests spend no
// fuel. One goroutine advances wasmtime's epoch every millisecond, and at the third epoch
// at the latest wasmtime asks the host how long the guest may still compute.
//
// Linear memory is wasmtime's own, with the sandbox's image mapped over it, so it is
// reset as under the default engine.
package wasmtime
