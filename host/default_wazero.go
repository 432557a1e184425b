//go:build !wasmtime

package host

import (
	"partneredge/host/engine"
	"partneredge/host/wazero"
)

func defaultEngine() engine.New { return wazero.New }
