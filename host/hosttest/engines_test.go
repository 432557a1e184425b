//go:build !wasmtime

package hosttest_test

import "partneredge/host/wazero"

// engines are those under test: the tag wasmtime chooses the other one.
var engines = []named{{"wazero", wazero.New}}
