//go:build wasmtime

package hostile_test

import "partneredge/host/wasmtime"

func moreEngines() []named { return []named{{"wasmtime", wasmtime.New}} }
