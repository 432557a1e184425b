package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"partneredge/host/hosttest"
	"partneredge/host/wazero"
)

// What all tests of a run share: the folder of the built modules, the cache of what
// was compiled, and the engine, by which each module is loaded once a run and not once
// a node.
var (
	modulesDir string
	cacheDir   string
	modules    *hosttest.Shared
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "node-test-")
	if err != nil {
		panic(err)
	}
	modulesDir = filepath.Join(dir, "modules")
	// The race detector makes rewriting and compiling slow: what was done before is
	// not done again.
	cacheDir, err = filepath.Abs("../../build/modules/.cache")
	if err != nil {
		panic(err)
	}
	if err := os.MkdirAll(cacheDir, 0o700); err != nil {
		panic(err)
	}
	modules = hosttest.Share(wazero.New, cacheDir)
	code := m.Run()
	if err := modules.Close(context.Background()); err != nil {
		panic(err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
