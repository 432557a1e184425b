package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what came out to the golden files")

func TestMain(m *testing.M) {
	shared := &sharedFiles{}
	defer shared.remove()
	testFiles = shared
	testscript.Main(cleanUp{m, shared}, map[string]func(){"edge": program})
}

// program does as the program's main function.
func program() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := Main(ctx, "test", os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// cleanUp removes the shared files once the tests have run.
type cleanUp struct {
	m      *testing.M
	shared *sharedFiles
}

func (c cleanUp) Run() int {
	defer c.shared.remove()
	return c.m.Run()
}

// testFiles is set by TestMain.
var testFiles *sharedFiles

// sharedFiles are made once a test run, by the first test that needs them.
type sharedFiles struct {
	once    sync.Once
	root    string
	modules string // *.wasm and their manifests
	cache   string // of compiled modules
	err     error

	build      sync.Once
	program    string // the program without the race detector
	programErr error
}

func (s *sharedFiles) remove() {
	if s.root != "" {
		os.RemoveAll(s.root)
	}
}

// get builds the modules from source.
func (s *sharedFiles) get(t testing.TB) (modules, cache string) {
	t.Helper()
	s.once.Do(func() { s.err = s.make() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.modules, s.cache
}

// plain is the program as it is shipped, without the race detector: what runs
// many processes at a time needs its speed.
func (s *sharedFiles) plain(t testing.TB) string {
	t.Helper()
	s.get(t)
	s.build.Do(func() {
		s.program = filepath.Join(s.root, "edge")
		if out, err := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", s.program, "..").CombinedOutput(); err != nil {
			s.programErr = fmt.Errorf("building the program: %w\n%s", err, out)
		}
	})
	if s.programErr != nil {
		t.Fatal(s.programErr)
	}
	return s.program
}

func (s *sharedFiles) make() error {
	root, err := os.MkdirTemp("", "edge-test-")
	if err != nil {
		return err
	}
	s.root, s.modules, s.cache = root, filepath.Join(root, "modules"), filepath.Join(root, "cache")
	mains, err := filepath.Glob("../../wasm/modules/*/main.go")
	if err != nil || len(mains) == 0 {
		return fmt.Errorf("no modules found: %w", errors.Join(err, os.ErrNotExist))
	}
	for _, one := range mains {
		name := filepath.Base(filepath.Dir(one))
		cmd := exec.Command("../../scripts/build-module", "wasm/modules/"+name, s.modules)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building module %s: %w\n%s", name, err, out)
		}
	}
	return os.Mkdir(s.cache, 0o700)
}

// TestScripts runs each of testdata/script against the program.
func TestScripts(t *testing.T) {
	modules, cache := testFiles.get(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("MODULES", modules)
			env.Setenv("CACHE", cache)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":     scriptAwait,
			"shape":     scriptShape,
			"ask":       scriptAsk,
			"same-keys": scriptSameKeys,
			"listen":    scriptListen,
			"code":      scriptCode,
			"field":     scriptField,
			"first":     scriptFirst,
			"encrypt":   scriptEncrypt,
			"spoil":     scriptSpoil,
			"address":   scriptAddress,

			"subscribe":  scriptSubscribe,
			"fire-until": scriptFireUntil,
			"receive":    scriptReceive,
			"signed":     scriptSigned,
		},
		RequireExplicitExec: true,
	})
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name string
		err  error
		code int
		text string
	}{
		{"none", nil, 0, ""},
		{"plain", io.ErrUnexpectedEOF, 1, "edge: unexpected EOF\n"},
		{"hint", hint(errors.New("opening x: gone"), "make %s", "x"), 1, "edge: opening x: gone\nhint: make x\n"},
		{"wrapped hint", fmt.Errorf("starting: %w", hint(errors.New("gone"), "wait")), 1, "edge: starting: gone\nhint: wait\n"},
		{"usage", usagef("see help", "no %s", "verb"), 2, "edge: no verb\nhint: see help\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stderr strings.Builder
			if code := report(tt.err, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if stderr.String() != tt.text {
				t.Errorf("printed %q, want %q", stderr.String(), tt.text)
			}
		})
	}
}

func TestPrefixes(t *testing.T) {
	tests := []struct {
		in   []string
		want string
		bad  bool
	}{
		{[]string{"10.0.0.0/8"}, "10.0.0.0/8", false},
		{[]string{"10.1.2.3/8"}, "10.0.0.0/8", false},
		{[]string{"127.0.0.1"}, "127.0.0.1/32", false},
		{[]string{"::1,10.0.0.0/8"}, "::1/128,10.0.0.0/8", false},
		{[]string{"::1", "127.0.0.1"}, "::1/128,127.0.0.1/32", false},
		{[]string{""}, "", true},
		{[]string{"fe80::1%eth0"}, "", true},
		{[]string{"localhost"}, "", true},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.in, " "), func(t *testing.T) {
			var p prefixes
			var err error
			for _, text := range tt.in {
				err = errors.Join(err, p.Set(text))
			}
			if (err != nil) != tt.bad {
				t.Fatalf("error %v", err)
			}
			if err == nil && p.String() != tt.want {
				t.Errorf("%s, want %s", p.String(), tt.want)
			}
		})
	}
}
