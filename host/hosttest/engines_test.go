//go:build !wasmtime

package hosttest_test

func moreEngines() []named { return nil }
