// Package releasetest provides modules for tests to pack into releases.
package releasetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Trap returns the module agents changed to trap on one of twenty requests. It is
// built once in a test run.
func Trap(t testing.TB) []byte {
	t.Helper()
	wasm, err := trap()
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

var trap = sync.OnceValues(func() ([]byte, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	dir, err := os.MkdirTemp("", "trap-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	build := exec.Command(filepath.Join(strings.TrimSpace(string(root)), "scripts", "build-module"), "edge/command/testdata/modules/trap", dir)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the module trap: %w\n%s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, "trap.wasm"))
})

// Modules returns a copy of a folder of modules and manifests in which some files
// are replaced.
func Modules(t testing.TB, built string, replaced map[string][]byte) (dir string) {
	t.Helper()
	manifests, err := filepath.Glob(filepath.Join(built, "*.json"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no modules in %s: %v", built, err)
	}
	dir = t.TempDir()
	for _, manifest := range manifests {
		for _, file := range []string{manifest, strings.TrimSuffix(manifest, ".json") + ".wasm"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := replaced[filepath.Base(file)]; ok {
				text = other
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}
