//go:build wasmtime

package host

import (
	"partneredge/host/engine"
	"partneredge/host/wasmtime"
)

func defaultEngine() engine.New { return wasmtime.New }
