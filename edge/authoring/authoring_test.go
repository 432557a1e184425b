package authoring

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"partneredge/edge/hint"
	"partneredge/store/logtest"
	"partneredge/wasm"
)

// cache is the compile cache of the whole test run.
var cache string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "authoring")
	if err != nil {
		panic(err)
	}
	cache = dir
	// What a module is built from is in its folder: nothing is fetched.
	if err := os.Setenv("GOPROXY", "off"); err != nil {
		panic(err)
	}
	// As scripts/build-module has it, so that the standard library is compiled once for both.
	profile, err := filepath.Abs("../../wasm/modules.pgo")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -gcflags=all= -pgo="+profile); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// config builds into a folder of the test's.
func config(t *testing.T) Config {
	// The machine has other work: how long a call computes is not judged.
	return Config{Out: t.TempDir(), Cache: cache, CPU: patience, CheckDial: refusePrivate, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

func refusePrivate(addr netip.AddrPort) error {
	if addr.Addr().IsPrivate() {
		return errors.New("a private address")
	}
	return nil
}

// needCompiler skips the test where a language's compiler is missing, or fails it with
// EDGE_REQUIRE_COMPILERS=1.
func needCompiler(t *testing.T, p *Project) {
	t.Helper()
	_, err := p.compiler(t.Context(), "unused")
	if err == nil {
		return
	}
	if os.Getenv("EDGE_REQUIRE_COMPILERS") == "1" {
		t.Fatal(err)
	}
	t.Skipf("NOT TESTED: modules in %s: %v", p.Language, err)
}

// started returns a new module of a language in a folder of its own.
func started(t *testing.T, language wasm.Language) *Project {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "hello")
	if _, err := New(dir, "hello", language); err != nil {
		t.Fatal(err)
	}
	return opened(t, dir)
}

func opened(t *testing.T, dir string) *Project {
	t.Helper()
	p, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// replace changes a file of a module.
func replace(t *testing.T, p *Project, name, old, new string) {
	t.Helper()
	path := filepath.Join(p.Dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q:\n%s", name, old, text)
	}
	whole := filepath.Join(t.TempDir(), filepath.Base(name)) // nobody is to read half of it
	if err := os.WriteFile(whole, []byte(strings.ReplaceAll(string(text), old, new)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(whole, path); err != nil {
		t.Fatal(err)
	}
}

// good fails the test unless the module passes its cases and its check, without a
// finding. It has three tries at each, since an example gives an upstream two seconds and
// the machine has other work.
func good(t *testing.T, p *Project) {
	t.Helper()
	needCompiler(t, p)
	c := config(t)
	for tries := 1; ; tries++ {
		tested, err := p.Test(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if tested.OK && len(tested.Cases) > 0 {
			break
		}
		if tries == 3 {
			t.Fatalf("cases: %+v", tested)
		}
	}
	for tries := 1; ; tries++ {
		checked, err := p.Check(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if checked.OK && len(checked.Findings) == 0 && checked.CallUS > 0 && checked.PagesWritten > 0 && checked.Size > 0 && checked.Image > 0 {
			return
		}
		if tries == 3 {
			t.Fatalf("check: %+v", checked)
		}
	}
}

// A new module builds, passes its cases and its check as it is, outside the
// repository, and without a network.
func TestNewModules(t *testing.T) {
	for _, language := range []wasm.Language{wasm.Go, wasm.Rust, wasm.C} {
		t.Run(string(language), func(t *testing.T) { good(t, started(t, language)) })
	}
}

// The examples are built, checked and run in the same way.
func TestExamples(t *testing.T) {
	manifests, err := filepath.Glob("../../wasm/examples/*/manifest.json")
	if err != nil || len(manifests) < 3 {
		t.Fatalf("%d examples, %v", len(manifests), err)
	}
	for _, path := range manifests {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) { good(t, opened(t, filepath.Dir(path))) })
	}
}

// What a module's author gets is what the modules of this repository are built with.
func TestSDKIsTheSource(t *testing.T) {
	files, err := wasm.SDK(wasm.Go)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if name == "sdk/go.mod" {
			continue
		}
		own, err := os.ReadFile(filepath.Join("../../wasm", strings.TrimPrefix(name, "sdk/")))
		if err != nil || !bytes.Equal(content, own) {
			t.Errorf("%s is not the file of wasm: %v", name, err)
		}
	}
	for _, language := range []wasm.Language{wasm.Rust, wasm.C} {
		files, err := wasm.SDK(language)
		own, failed := os.ReadFile("../../wasm/abi/frame.go")
		if err != nil || failed != nil || !bytes.Equal(files["abi/frame.go"], own) || files["abi/abi_test.go"] != nil {
			t.Errorf("%s: package abi is not there to be read: %v, %v", language, err, failed)
		}
	}
	for _, name := range []string{"sdk/abi/abi.go", "sdk/guest/guest.go", "sdk/answer/answer.go", "sdk/typeid/typeid.go"} {
		if files[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if slices.ContainsFunc(slices.Collect(keys(files)), func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		t.Error("the SDK has tests")
	}
}

func keys(files map[string][]byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}
}

// TestCompilerWarnings: what a compiler warns of is said of a module that it builds, by check
// as a finding.
func TestCompilerWarnings(t *testing.T) {
	p := started(t, wasm.C)
	needCompiler(t, p)
	built, err := p.Build(t.Context(), t.TempDir())
	if err != nil || built.Warnings != "" {
		t.Fatalf("a new module: %q, %v", built.Warnings, err)
	}
	replace(t, p, "main.c", "edge_text(resp, \"{\\\"hello\\\":\");", "int forgotten; edge_text(resp, \"{\\\"hello\\\":\");")
	built, err = p.Build(t.Context(), t.TempDir())
	if err != nil || !strings.Contains(built.Warnings, "main.c:") || !strings.Contains(built.Warnings, "forgotten") {
		t.Errorf("the compiler warns %q, %v", built.Warnings, err)
	}
	report, err := p.Check(t.Context(), config(t))
	if err != nil || !report.OK || !slices.ContainsFunc(report.Findings, func(f Finding) bool {
		return f.Rule == "compiler" && f.Level == Warning && f.Text == built.Warnings
	}) {
		t.Errorf("check says %+v, %v", report, err)
	}
}

// TestInvalidFrameInRust: a frame that the host cannot read is the module's own fault, to the
// module and in the log.
func TestInvalidFrameInRust(t *testing.T) {
	p := started(t, wasm.Rust)
	needCompiler(t, p)
	replace(t, p, "src/lib.rs", `resp.string(req.param("who"));`,
		`resp.string(if edge::call(10, req.param("who").as_bytes()) == Err(edge::Refused::Invalid) { "invalid" } else { "" });`)
	replace(t, p, manifestFile, `"capabilities": []`, `"capabilities": ["outbox"]`)
	cases := `{"cases": [{"name": "no lead", "steps": [{"path": "hello/ana", "status": 200, "want": {"hello": "invalid"}}]}]}`
	if err := os.WriteFile(filepath.Join(p.Dir, casesFile), []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config(t)
	var log *logtest.Buffer
	c.Log, log = logtest.New()
	report, err := opened(t, p.Dir).Test(t.Context(), c)
	if err != nil || !report.OK || log.Count("its frame is malformed or too long") != 1 {
		t.Errorf("%+v, %v; the log says %s", report, err, log)
	}
}

// Two builds of the same sources give the same bytes, and the manifest that lies
// beside them holds the description of the routes.
func TestBuild(t *testing.T) {
	p := started(t, wasm.Go)
	var made [2][]byte
	for i := range made {
		built, err := p.Build(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if made[i], err = os.ReadFile(built.Wasm); err != nil || int64(len(made[i])) != built.Size {
			t.Fatalf("%d bytes, %v: %+v", len(made[i]), err, built)
		}
		manifest, err := os.ReadFile(built.Manifest)
		if err != nil || !bytes.Contains(manifest, []byte(`"openapi": {`)) || !bytes.Contains(manifest, []byte("Greet somebody")) {
			t.Errorf("%v: %s", err, manifest)
		}
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("two builds differ")
	}

	// Sources that do not compile leave what was built before.
	out := t.TempDir()
	built, err := p.Build(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{built.Wasm, built.Manifest, filepath.Join(p.Dir, "main.go")} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o022 != 0 {
			t.Errorf("others may write to %s: %v, %v", file, info.Mode(), err)
		}
	}
	replace(t, p, "main.go", "func main", "fun main")
	_, err = p.Build(t.Context(), out)
	if failed, ok := errors.AsType[*CompileError](err); !ok || !strings.Contains(failed.Error(), "main.go:") {
		t.Errorf("broken sources: %v", err)
	}
	if info, err := os.Stat(built.Wasm); err != nil || info.Size() != built.Size {
		t.Errorf("after broken sources: %v, %v", info, err)
	}
	if _, err := os.Stat(built.Wasm + ".part"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part is left: %v", err)
	}
}

// A compiler that is missing is said to be, with what helps.
func TestMissingCompilers(t *testing.T) {
	for language, want := range map[wasm.Language]string{wasm.Go: "Go is missing", wasm.C: "no program clang", wasm.Rust: "Rust is missing"} {
		p := started(t, language)
		t.Run(string(language), func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv("RUSTC", "")
			_, err := p.Build(t.Context(), "")
			advised, ok := errors.AsType[*hint.Error](err)
			if !ok || !strings.Contains(err.Error(), want) || !strings.HasPrefix(advised.Advice, "install ") {
				t.Errorf("%v", err)
			}
		})
	}
}

// A build that is interrupted is over soon, though what the compiler started lives on.
func TestInterruptedBuild(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("NOT TESTED: interrupted builds, for want of a shell")
	}
	for language, name := range map[wasm.Language]string{wasm.Go: "go", wasm.C: "clang", wasm.Rust: "rustc"} {
		t.Run(string(language), func(t *testing.T) {
			p := started(t, language)
			bin := t.TempDir()
			pids := filepath.Join(bin, "pids")
			// The child has the compiler's output open, and is left behind when that ends.
			stub := "#!/bin/sh\nsleep 600 &\necho $! >" + pids + ".part; mv " + pids + ".part " + pids + "\nwait\n"
			for _, program := range []string{name, "wasm-ld"} {
				if err := os.WriteFile(filepath.Join(bin, program), []byte(stub), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			t.Setenv("RUSTC", filepath.Join(bin, "rustc"))
			ctx, interrupt := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := p.Build(ctx, "")
				ended <- err
			}()
			var child *os.Process
			for again := time.Tick(20 * time.Millisecond); child == nil; {
				select {
				case err := <-ended:
					t.Fatalf("it ended before it was interrupted: %v", err)
				case <-again:
				}
				text, err := os.ReadFile(pids)
				if err != nil {
					continue
				}
				pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
				if err != nil {
					t.Fatal(err)
				}
				if child, err = os.FindProcess(pid); err != nil {
					t.Fatal(err)
				}
			}
			defer func() { _ = child.Kill() }()
			interrupt()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("it waits for what the compiler started")
			}
		})
	}
}

// A crate that needs others is built by cargo, with a rustc that has the target.
func TestCargo(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("NOT TESTED: crates with dependencies, for want of a shell")
	}
	p := started(t, wasm.Rust)
	bin, lib := t.TempDir(), t.TempDir()
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(lib, "libcore-1.rlib"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	script("rustc", `[ "$4" = wasm32-wasip1 ] && echo `+lib)
	script("cargo", `[ "$RUSTC" = `+bin+`/rustc ] && mkdir -p target/wasm32-wasip1/release && printf "$*" >target/wasm32-wasip1/release/greeting.wasm`)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("RUSTC", "")
	replace(t, p, "Cargo.toml", "[lib]\n", "[lib]\nname = \"greeting\"\n")
	replace(t, p, "Cargo.toml", "[dependencies]\n", "[dependencies.serde_json] # JSON\nversion = \"1\"\n")
	built, err := p.Build(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(built.Wasm); err != nil || !strings.Contains(string(got), "build --quiet --release --lib --target wasm32-wasip1") {
		t.Errorf("%s, %v", got, err)
	}
}

// TestReadCargo: dependencies are found wherever a Cargo.toml may have them, and so is the
// name of what cargo makes.
func TestReadCargo(t *testing.T) {
	const head = "[package]\nname = \"in-front\"\n"
	for _, tt := range []struct {
		text, library string
		needs         bool
	}{
		{head, "in_front", false},
		{head + "[dependencies]\n", "in_front", false},
		{head + "[dependencies] # none\n# serde = \"1\"\n[profile.release]\nstrip = true\n", "in_front", false},
		{head + "[dev-dependencies]\nserde = \"1\"\n", "in_front", false},
		{head + "[dependencies]\n\n# JSON\nserde = \"1\"\n", "in_front", true},
		{head + "[dependencies] # JSON\nserde = \"1\"\n", "in_front", true},
		{head + "[ dependencies ]\nserde = \"1\"\n", "in_front", true},
		{head + "[dependencies.serde]\nversion = \"1\"\n", "in_front", true},
		{"dependencies.serde = \"1\"\n" + head, "in_front", true},
		{head + "[target.wasm32-wasip1.dependencies]\nserde = \"1\"\n", "in_front", true},
		{head + "[target.'cfg(target_family = \"wasm\")'.dependencies.serde]\nversion = \"1\"\n", "in_front", true},
		{head + "[build-dependencies]\ncc = \"1\"\n", "in_front", true},
		{head + "[lib]\nname = \"behind\"\n[dependencies]\nserde = \"1\"\n", "behind", true},
		{"[lib]\nname = 'behind'\n" + head + "[dependencies]\nname = \"1\"\n", "behind", true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "Cargo.toml"), []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readCargo(dir)
		if err != nil || m.needsCargo() != tt.needs || m.library() != tt.library {
			t.Errorf("%q: %v, %q, %v; want %v, %q", tt.text, m.needsCargo(), m.library(), err, tt.needs, tt.library)
		}
	}
	dir := t.TempDir()
	if m, err := readCargo(dir); err != nil || m.needsCargo() {
		t.Errorf("no Cargo.toml: %+v, %v", m, err)
	} else if err := m.checkEdition(); err != nil {
		t.Errorf("no Cargo.toml: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Cargo.toml"), []byte("[dependencies\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readCargo(dir); err == nil || !strings.Contains(err.Error(), "reading Cargo.toml: toml: line ") {
		t.Errorf("a Cargo.toml that is none: %v", err)
	}
}

// TestEdition: an edition that the SDK does not compile in is refused, and not ignored until
// there is a dependency.
func TestEdition(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("RUSTC", "")
	for _, tt := range []struct{ edition, want string }{
		{`edition = "2021"`, "Rust is missing"},
		{`edition = '2021' # the SDK's`, "Rust is missing"},
		{`edition = "2024"`, "the edition of Cargo.toml is 2024, and src/edge.rs needs \"2021\""},
		{`edition = "2018"`, "the edition of Cargo.toml is 2018"},
		{`edition = 2021`, "the edition of Cargo.toml is 2021, and"}, // cargo wants a string
		{``, "the edition of Cargo.toml is 2015, as it names none"},
		{`edition.workspace = true`, "the edition of Cargo.toml is that of a workspace"},
	} {
		for _, dependencies := range []string{"", "serde = \"1\"\n"} {
			p := started(t, wasm.Rust)
			replace(t, p, "Cargo.toml", `edition = "2021"`, tt.edition)
			replace(t, p, "Cargo.toml", "[dependencies]\n", "[dependencies]\n"+dependencies)
			_, err := p.Build(t.Context(), "")
			advised, ok := errors.AsType[*hint.Error](err)
			want := tt.want
			if dependencies != "" && strings.Contains(tt.edition, "workspace") {
				want = "Rust is missing" // it is cargo that reads the workspace
			}
			if !ok || !strings.Contains(err.Error(), want) || advised.Advice == "" {
				t.Errorf("%s %s: %v, want %q", tt.edition, dependencies, err, want)
			}
		}
	}
}

// Names that no module may have, and folders that hold something, are refused before
// anything is written.
func TestNewRefuses(t *testing.T) {
	for _, name := range []string{"", "Quotes", "9", "a_b", "gate", "leads", "../x", strings.Repeat("a", 41)} {
		dir := filepath.Join(t.TempDir(), "m")
		if _, err := New(dir, name, wasm.Go); err == nil {
			t.Errorf("a module named %q", name)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: a folder was made", name)
		}
	}
	if _, err := New(t.TempDir(), "quotes", "cobol"); err == nil {
		t.Error("a module in cobol")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(dir, "quotes", wasm.Go); err == nil {
		t.Error("into a folder that holds something")
	}
}

// Serve loads what was saved, and goes on with what it has when that does not build.
func TestServe(t *testing.T) {
	p := started(t, wasm.Go)
	loads, failures := make(chan Loaded, 16), make(chan error, 16)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := ServeConfig{Config: config(t), Listen: "127.0.0.1:0",
		Loaded: func(l Loaded) { loads <- l }, Failed: func(err error) { failures <- err }}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(p.Dir, link); err != nil {
		t.Fatal(err)
	}
	c.Out = filepath.Join(link, "out") // among what is watched: what is built there must not count
	go func() { ended <- Serve(ctx, p.Dir, c) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	next := func(event string) (l Loaded) {
		t.Helper()
		select {
		case l = <-loads:
			if l.Event != event {
				t.Fatalf("%+v", l)
			}
		case err := <-failures:
			t.Fatal(err)
		case err := <-ended:
			ended <- nil
			t.Fatalf("it ended: %v", err)
		case <-time.After(10 * time.Minute):
			t.Fatal("nothing was loaded")
		}
		return l
	}
	first := next("ready")
	asked(t, first, first.Try, 200, `{"hello":"ana"}`)
	asked(t, first, "/api/v2/public/agents/me", 200, `{"agent":`)

	replace(t, p, "main.go", "hello", "welcome")
	asked(t, next("reloaded"), first.Try, 200, `{"welcome":"ana"}`)

	replace(t, p, "main.go", "func main", "fun main")
	select {
	case err := <-failures:
		if !strings.Contains(err.Error(), "main.go:") {
			t.Error(err)
		}
	case <-time.After(10 * time.Minute):
		t.Fatal("nobody was told of a source that does not build")
	}
	asked(t, first, first.Try, 200, `{"welcome":"ana"}`)

	replace(t, p, "main.go", "fun main", "func main")
	next("reloaded")
	replace(t, p, "manifest.json", `"path": "/api/v2/public/hello/{who}"`, `"path": "/api/v2/public/hello/to/{who}"`)
	l := next("reloaded")
	asked(t, l, "/api/v2/public/hello/to/ana", 200, `{"welcome":"ana"}`)
	asked(t, l, "/api/v2/public/hello/ana", 404, `{"error":"not_found"}`)
}

// TestServeWithoutUpstreams: an upstream that cannot be started is an error, and so is a module
// of whose connections nothing judges.
func TestServeWithoutUpstreams(t *testing.T) {
	p := started(t, wasm.Go)
	built, err := p.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.Dir, "cases.json"), []byte(`{
		"upstreams":[{"address":"rates.example:443","certificate":"gone.pem","key":"gone.key"}],
		"cases":[{"name":"one","steps":[{"path":"hello/ana","status":200}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := ServeConfig{Config: config(t), Listen: "127.0.0.1:0", FakeUpstreams: true}
	s := &server{dir: p.Dir, ServeConfig: c}
	if _, _, err := s.open(t.Context(), p, built); err == nil || !strings.Contains(err.Error(), "gone.") {
		t.Errorf("an upstream without a certificate: %v", err)
	}
	c.FakeUpstreams, c.CheckDial = false, nil
	if err := Serve(t.Context(), p.Dir, c); err == nil || !strings.Contains(err.Error(), "nothing judges") {
		t.Errorf("without CheckDial: %v", err)
	}
}

// A folder that is gone has no files.
func TestSnapshotOfNothing(t *testing.T) {
	dir := t.TempDir()
	if files := snapshot(filepath.Join(dir, "gone"), dir); len(files) != 0 {
		t.Errorf("%v", files)
	}
}

// What was built into the module's own folder is no change of the module.
func TestSnapshotWithoutOutput(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"main.go", "manifest.json", "hello.wasm", "hello.json", "hello.wasm.part", ".part-1", "sub/x.go", "target/y"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for path := range snapshot(dir, dir) {
		got = append(got, strings.TrimPrefix(path, dir+string(os.PathSeparator)))
	}
	slices.Sort(got)
	if want := []string{"main.go", "manifest.json", filepath.Join("sub", "x.go")}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// asked sends a request with the demo account's key.
func asked(t *testing.T, l Loaded, path string, status int, want string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.Live)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if id := resp.Header.Get("X-Request-Id"); !strings.HasPrefix(id, "req_") {
		t.Errorf("GET %s: request id %q", path, id)
	}
	if err != nil || resp.StatusCode != status || !strings.HasPrefix(string(body), want) {
		t.Errorf("GET %s: %d %s, %v; want %d %s", path, resp.StatusCode, body, err, status, want)
	}
}
