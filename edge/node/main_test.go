package node

import (
	"os"
	"path/filepath"
	"testing"
)

// Directories that all tests of a run share.
var modulesDir, cacheDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "node-test-")
	if err != nil {
		panic(err)
	}
	modulesDir = filepath.Join(dir, "modules")
	// The race detector makes compiling slow: what has been compiled before is
	// not compiled again.
	if cacheDir, err = filepath.Abs("../../build/modules/.cache"); err != nil {
		panic(err)
	}
	if err := os.MkdirAll(cacheDir, 0o700); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// shareCache has modules compiled once a run, not once a node.
func shareCache(t *testing.T, data string) {
	t.Helper()
	link := filepath.Join(data, "cache")
	if err := os.Symlink(cacheDir, link); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}
