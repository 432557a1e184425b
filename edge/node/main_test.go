package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"partneredge/host/hosttest"
	"partneredge/host/wazero"
)

// What all tests of a run share: the folder of the built modules, and the engine, by
// which each module is loaded once a run and not once a node.
var (
	modulesDir string
	modules    *hosttest.Shared
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "node-test-")
	if err != nil {
		panic(err)
	}
	modulesDir = filepath.Join(dir, "modules")
	// The race detector makes compiling slow: what has been compiled before is
	// not compiled again.
	cache, err := filepath.Abs("../../build/modules/.cache")
	if err != nil {
		panic(err)
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		panic(err)
	}
	modules = hosttest.Share(wazero.New, cache)
	code := m.Run()
	if err := modules.Close(context.Background()); err != nil {
		panic(err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
