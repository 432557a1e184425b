//go:build wasmtime

package hosttest_test

import "partneredge/host/wasmtime"

func moreEngines() []named { return []named{{"wasmtime", wasmtime.New}} }
