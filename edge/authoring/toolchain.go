package authoring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"partneredge/edge/hint"
	"partneredge/wasm"
)

// compilation is a run of a compiler that is still to be started.
type compilation struct {
	*exec.Cmd
	made string // the file that it makes
}

// compiler returns the compilation of the sources of a module to the file out, or to
// a file that its language's tools choose.
func (p *Project) compiler(ctx context.Context, out string) (c compilation, err error) {
	c.made = out
	switch p.Language {
	case wasm.Rust:
		c, err = p.rustCompiler(ctx, out)
	case wasm.C:
		c.Cmd, err = cCompiler(ctx, p.Dir, out)
	default:
		c.Cmd, err = goCompiler(ctx, out)
	}
	if err == nil {
		c.Dir = p.Dir
	}
	return c, err
}

// interruptedFor bounds the time that a compiler has to end what it has started.
const interruptedFor = 2 * time.Second

// command returns a run of a program that is interrupted when ctx ends, and killed later.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	if runtime.GOOS != "windows" { // which can only kill
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	}
	cmd.WaitDelay = interruptedFor
	return cmd
}

// outputOf runs a program and returns what it wrote, with its errors or without. It writes to a
// file: a pipe has no end while what it started, and has left behind, lives.
func outputOf(cmd *exec.Cmd, withErrors bool) (text []byte, err error) {
	f, err := os.CreateTemp("", "edge-module-")
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name()) // Windows keeps it while somebody has it open
	}()
	cmd.Stdout = f
	if withErrors {
		cmd.Stderr = f
	}
	ran := cmd.Run()
	text, err = os.ReadFile(f.Name())
	return text, cmp.Or(ran, err)
}

func goCompiler(ctx context.Context, out string) (*exec.Cmd, error) {
	const needed = "install Go 1.24 or newer, and put its folder bin into PATH"
	program, err := exec.LookPath("go")
	if err != nil {
		return nil, hint.Add(errors.New("building the module: Go is missing: there is no program go in PATH"), needed)
	}
	// The tag getaddrinfo leaves looking names up to the host.
	cmd := command(ctx, program, "build", "-buildmode=c-shared", "-tags=getaddrinfo",
		"-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, ".")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off")
	return cmd, nil
}

func cCompiler(ctx context.Context, dir, out string) (*exec.Cmd, error) {
	const needed = "install clang and lld, which Debian has as packages of those names"
	for _, name := range []string{"clang", "wasm-ld"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, hint.Add(fmt.Errorf("building the module: there is no program %s in PATH", name), needed)
		}
	}
	sources, err := fs.Glob(os.DirFS(dir), "*.c")
	if err != nil {
		return nil, err
	}
	// The stack comes first, so that what overflows it traps and overwrites no data. Without
	// -fno-builtin the compiler calls functions of a library that is not there: strlen, say.
	args := []string{"--target=wasm32", "-O2", "-Wall", "-nostdlib", "-fno-builtin", "-mbulk-memory", "-msign-ext", "-mnontrapping-fptoint",
		"-Wl,--no-entry", "-Wl,--strip-all", "-Wl,--stack-first", "-Wl,-z,stack-size=262144", "-o", out}
	args = append(args, sources...)
	return command(ctx, "clang", args...), nil
}

// rustTargets are the targets of rustc that make modules, the best first. The first was
// called as the second is before Rust 1.78.
var rustTargets = []string{"wasm32-wasip1", "wasm32-wasi", "wasm32-unknown-unknown"}

// rustEdition is the edition of Rust that src/edge.rs is written in: it does not compile in
// others, and Debian's rustc does not know what later ones want of it.
const rustEdition = "2021"

// cargoManifest holds the fields of a Cargo.toml that decide whether cargo is needed, how
// it names the library, and which Rust the sources are.
type cargoManifest struct {
	cargoDependencies
	Package struct {
		Name    string
		Edition any // a table if it is that of a workspace
	}
	Lib    struct{ Name string }
	Target map[string]cargoDependencies
}

type cargoDependencies struct {
	Dependencies map[string]any
	Build        map[string]any `toml:"build-dependencies"`
}

func (d cargoDependencies) any() bool { return len(d.Dependencies)+len(d.Build) > 0 }

// readCargo reads the Cargo.toml of a folder, which need not be there.
func readCargo(dir string) (m cargoManifest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "Cargo.toml"))
	if errors.Is(err, fs.ErrNotExist) {
		m.Package.Edition = rustEdition
		return m, nil
	}
	if err == nil {
		err = toml.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("building the module: reading Cargo.toml: %w", err)
	}
	return m, nil
}

// needsCargo reports whether there is a dependency, for any target.
func (m cargoManifest) needsCargo() bool {
	of := slices.AppendSeq([]cargoDependencies{m.cargoDependencies}, maps.Values(m.Target))
	return slices.ContainsFunc(of, cargoDependencies.any)
}

// checkEdition refuses what cargo and rustc would compile differently, or not at all.
func (m cargoManifest) checkEdition() error {
	edition := m.Package.Edition
	switch edition.(type) {
	case nil:
		edition = "2015, as it names none"
	case map[string]any:
		if m.needsCargo() {
			return nil // cargo reads it
		}
		edition = "that of a workspace"
	}
	if edition == rustEdition {
		return nil
	}
	return hint.Add(fmt.Errorf("building the module: the edition of Cargo.toml is %v, and src/edge.rs needs %q", edition, rustEdition),
		"write edition = %q below [package] in Cargo.toml", rustEdition)
}

// library returns the name of the file that cargo makes, without its extension.
func (m cargoManifest) library() string {
	return strings.ReplaceAll(cmp.Or(m.Lib.Name, m.Package.Name), "-", "_")
}

// rustCompiler calls rustc itself, unless the crate needs others: finding those is
// cargo's work.
func (p *Project) rustCompiler(ctx context.Context, out string) (compilation, error) {
	cargo, err := readCargo(p.Dir)
	if err == nil {
		err = cargo.checkEdition()
	}
	if err != nil {
		return compilation{}, err
	}
	program, target, err := findRust(ctx)
	if err != nil {
		return compilation{}, err
	}
	if !cargo.needsCargo() {
		crate := strings.ReplaceAll(p.Manifest.Name, "-", "_")
		return compilation{command(ctx, program, "--edition", rustEdition, "--crate-type", "cdylib", "--crate-name", crate,
			"--target", target, "-C", "opt-level=2", "-C", "panic=abort", "-C", "strip=symbols",
			"-o", out, filepath.Join("src", "lib.rs")), out}, nil
	}
	if _, err := exec.LookPath("cargo"); err != nil {
		return compilation{}, hint.Add(errors.New("building the module: it has dependencies, and there is no program cargo in PATH"),
			"install cargo, or do without dependencies")
	}
	cmd := command(ctx, "cargo", "build", "--quiet", "--release", "--lib", "--target", target, "--target-dir", "target")
	cmd.Env = append(os.Environ(), "RUSTC="+program)
	return compilation{cmd, filepath.Join(p.Dir, "target", target, "release", cargo.library()+".wasm")}, nil
}

// findRust returns a rustc that has the library of a target that makes modules. A
// machine may have more than one rustc, of which the first in PATH has none.
func findRust(ctx context.Context) (program, target string, err error) {
	var candidates []string
	add := func(path string) {
		if info, err := os.Stat(path); err == nil && !info.IsDir() && !slices.Contains(candidates, path) {
			candidates = append(candidates, path)
		}
	}
	if own := os.Getenv("RUSTC"); own != "" {
		add(own)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		add(filepath.Join(dir, "rustc"))
	}
	if len(candidates) == 0 {
		return "", "", hint.Add(errors.New("building the module: Rust is missing: there is no program rustc in PATH"),
			"install rustc with its target wasm32-wasip1: by rustup, or Debian's rustc and libstd-rust-dev-wasm32")
	}
	for _, target := range rustTargets {
		for _, program := range candidates {
			out, err := outputOf(command(ctx, program, "--print", "target-libdir", "--target", target), false)
			if err != nil {
				continue // it does not know the target
			}
			if found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "libcore-*")); len(found) > 0 {
				return program, target, nil
			}
		}
	}
	return "", "", hint.Add(fmt.Errorf("building the module: %s has no library for WebAssembly", strings.Join(candidates, ", ")),
		"rustup target add wasm32-wasip1, or install Debian's libstd-rust-dev-wasm32")
}
