//go:build !wasmtime

package hostile_test

func moreEngines() []named { return nil }
