package command

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"partneredge/store/durable"
)

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

// runTests puts the program on the PATH of everything that tests start. What they build
// does without cgo, as what `make build` makes does.
func runTests(m *testing.M) int {
	root, err := os.MkdirTemp("", "edge-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(root)
	testFiles = &sharedFiles{root: root}
	os.Setenv("PATH", filepath.Join(root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	os.Setenv("CGO_ENABLED", "0")
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

// stopTime is service.StopTime of the programs that tests start: on a machine with other
// work a stop may take longer than the program as it is shipped gives it.
const stopTime = time.Minute

// buildProgram builds the program as it is shipped, but for its version, for the cache,
// which it shares with tests, for stopTime, and for the sources that have another file in
// replace.
func buildProgram(to, version string, replace map[string]string) error {
	dir, err := os.MkdirTemp("", "edge-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	source, err := filepath.Abs("../service/service.go")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	const says = "\nconst StopTime = 15 * time.Second\n"
	if bytes.Count(text, []byte(says)) != 1 {
		return fmt.Errorf("%s does not say %q", source, says)
	}
	text = bytes.Replace(text, []byte(says), fmt.Appendf(nil, "\nconst StopTime time.Duration = %d\n", stopTime), 1)
	all := map[string]string{source: filepath.Join(dir, "service.go")}
	maps.Copy(all, replace)
	overlay := filepath.Join(dir, "overlay.json")
	if err := errors.Join(os.WriteFile(all[source], text, 0o600), durable.WriteJSON(overlay, map[string]any{"Replace": all})); err != nil {
		return err
	}
	return run("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version="+version+" "+compileForTests, "-overlay", overlay, "-o", to, "..")
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
		buildProgram(filepath.Join(s.root, "bin", "edge"), "test", nil),
	)
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}
