//go:build race && !wasmtime

package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// precompile compiles dir/m.wasm into CacheDir by a program without the race
// detector, in which wazero compiles ten times as slowly.
func precompile(dir string) error {
	manifest := []byte(`{"name":"m","warmup":[{"method":"GET","path":"/honest"}]}`)
	if err := os.WriteFile(filepath.Join(dir, "m.json"), manifest, 0o600); err != nil {
		return err
	}
	// A test program has no versions of its libraries in it, and wazero's cache
	// is named after wazero's.
	cmd := exec.Command("go", "run", "-ldflags=-X github.com/tetratelabs/wazero/internal/version.version=dev",
		"../scripts/precompile", dir, CacheDir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make has compiled it
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("precompile: %w\n%s", err, out)
	}
	return nil
}
