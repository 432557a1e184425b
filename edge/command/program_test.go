package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

// runTests puts the program on the PATH of everything that tests start.
func runTests(m *testing.M) int {
	root, err := os.MkdirTemp("", "edge-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(root)
	testFiles = &sharedFiles{root: root}
	os.Setenv("PATH", filepath.Join(root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return m.Run()
}

// flagsOfGuests are flags for Go under which a module is built by the profile that
// scripts/build-module has too, so that the standard library is compiled once for both.
func flagsOfGuests(t *testing.T) string {
	profile, err := filepath.Abs("../../wasm/modules.pgo")
	if err != nil {
		t.Fatal(err)
	}
	return "-pgo=" + profile
}

// testFiles is set by TestMain.
var testFiles *sharedFiles

// sharedFiles are built once a test run, for the first test that needs them.
type sharedFiles struct {
	root    string
	once    sync.Once
	modules string // *.wasm and their manifests
	cache   string // of compiled modules
	err     error
}

// get returns the modules, and a cache that holds them compiled for this test's
// process and for the program.
func (s *sharedFiles) get(t testing.TB) (modules, cache string) {
	t.Helper()
	s.once.Do(func() { s.err = s.build() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.modules, s.cache
}

// program returns the path of the program as it is shipped: without the race
// detector, under which what tests run in their own process is tested.
func (s *sharedFiles) program(t testing.TB) string {
	t.Helper()
	s.get(t)
	return filepath.Join(s.root, "bin", "edge")
}

// compileForTests makes wazero take the cache of test programs, which have no
// versions of their libraries in them.
const compileForTests = "-X github.com/tetratelabs/wazero/internal/version.version=dev"

// buildProgram builds the program as it is shipped, but for its version and for the
// cache, which it shares with tests.
func buildProgram(to, version string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version=" + version + " " + compileForTests}, flags...)
	return run("go", append(args, "-o", to, "..")...)
}

func (s *sharedFiles) build() error {
	s.modules = filepath.Join(s.root, "modules")
	mains, err := filepath.Glob("../../wasm/modules/*/main.go")
	if err != nil || len(mains) == 0 {
		return fmt.Errorf("no modules found: %w", errors.Join(err, os.ErrNotExist))
	}
	for _, one := range mains {
		name := filepath.Base(filepath.Dir(one))
		if err := run("../../scripts/build-module", "wasm/modules/"+name, s.modules); err != nil {
			return err
		}
	}
	if s.cache, err = filepath.Abs("../../build/modules/.cache"); err != nil {
		return err
	}
	return errors.Join(
		run("go", "run", "-ldflags="+compileForTests, "../../scripts/precompile", s.modules, s.cache),
		buildProgram(filepath.Join(s.root, "bin", "edge"), "test"),
	)
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
