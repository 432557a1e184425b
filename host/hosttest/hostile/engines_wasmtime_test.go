//go:build wasmtime

package hostile_test

import "partneredge/host/wasmtime"

// engines are those under test.
var engines = []named{{"wasmtime", wasmtime.New}}
