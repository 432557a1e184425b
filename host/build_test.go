package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Build compiles a Go guest to a module once in a test run, by the flags of
// scripts/build-module, with which Go's own packages have been compiled.
func Build(t testing.TB, pkg string) []byte {
	t.Helper()
	b, _ := built.LoadOrStore(pkg, sync.OnceValues(func() ([]byte, error) {
		dir, err := os.MkdirTemp("", "module")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		out := filepath.Join(dir, "m.wasm")
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-tags=getaddrinfo", "-gcflags=all=", "-pgo=../wasm/modules.pgo", "-o", out, pkg)
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, err
		}
		if err := precompile(dir); err != nil {
			return nil, err
		}
		return os.ReadFile(out)
	}))
	wasm, err := b.(func() ([]byte, error))()
	if err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	return wasm
}

var built sync.Map

// CacheDir is the cache of the whole test run, in which a module is compiled once.
var CacheDir string

// LogBuffer is a log that may be read while it is written.
type LogBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *LogBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was logged.
func (l *LogBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns how often s was logged.
func (l *LogBuffer) Count(s string) int { return strings.Count(l.String(), s) }

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "modules")
	if err != nil {
		panic(err)
	}
	CacheDir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
