package authoring

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"partneredge/edge/hint"
	"partneredge/store/durable"
	"partneredge/wasm"
)

// Built is a module that was built: a folder with NAME.wasm and NAME.json, as a node
// and `edge release push` take it.
type Built struct {
	Name     string        `json:"name"`
	Language wasm.Language `json:"language"`
	Wasm     string        `json:"wasm"`     // the file of the module
	Manifest string        `json:"manifest"` // the file of its manifest
	Size     int64         `json:"size"`     // of the module, bytes
	TookMS   int64         `json:"took_ms"`
	Warnings string        `json:"warnings,omitempty"` // of the compiler
}

// CompileError is the error of sources that do not compile.
type CompileError struct {
	Output string // of the compiler
	Err    error
}

func (e *CompileError) Error() string {
	return fmt.Sprintf("building the module: %v\n%s", e.Err, bytes.TrimSpace([]byte(e.Output)))
}

func (e *CompileError) Unwrap() error { return e.Err }

// Build compiles the module into the folder out, by default the folder build of its
// own. Sources that do not compile are a *CompileError, and what was built before
// stays as it is.
func (p *Project) Build(ctx context.Context, out string) (Built, error) {
	start := time.Now()
	manifest, err := p.shippedManifest()
	if err == nil {
		out, err = p.outDir(out)
	}
	if err != nil {
		return Built{}, fmt.Errorf("building the module: %w", err)
	}
	name := p.Manifest.Name
	built := Built{Name: name, Language: p.Language, Wasm: filepath.Join(out, name+".wasm"), Manifest: filepath.Join(out, name+".json")}
	part := built.Wasm + ".part"
	defer os.Remove(part)
	made, said, err := p.compile(ctx, part)
	if err != nil {
		return Built{}, err
	}
	code, err := os.ReadFile(made)
	if err == nil {
		err = durable.WriteFile(built.Wasm, code, 0o644)
	}
	if err == nil {
		err = durable.WriteFile(built.Manifest, manifest, 0o644)
	}
	if err != nil {
		return Built{}, fmt.Errorf("building the module: %w", err)
	}
	built.Size, built.TookMS = int64(len(code)), time.Since(start).Milliseconds()
	if p.Language != wasm.Go { // which warns of nothing, and says what it downloads
		built.Warnings = said
	}
	return built, nil
}

// outDir makes the folder that the module is built into, by default the folder build of
// its own, and returns its path, which is absolute.
func (p *Project) outDir(out string) (string, error) {
	out, err := filepath.Abs(cmp.Or(out, filepath.Join(p.Dir, outputDir)))
	if err != nil {
		return "", err
	}
	return out, os.MkdirAll(out, 0o777)
}

// compile runs the language's compiler and returns the file that it made, and what it said.
func (p *Project) compile(ctx context.Context, out string) (made, said string, err error) {
	c, err := p.compiler(ctx, out)
	if err != nil {
		return "", "", cmp.Or(ctx.Err(), err) // a search that is interrupted finds none
	}
	text, err := outputOf(c.Cmd, true)
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	if err != nil {
		return "", "", hint.Add(&CompileError{string(text), err}, "mend what the compiler says above")
	}
	return c.made, string(bytes.TrimSpace(text)), nil
}

// shippedManifest returns the manifest as it lies beside the built module, with the
// routes' description in it.
func (p *Project) shippedManifest() ([]byte, error) {
	m := p.Manifest
	text, err := os.ReadFile(filepath.Join(p.Dir, openAPIFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case !json.Valid(text):
		return nil, fmt.Errorf("%s is no JSON", openAPIFile)
	default:
		m.OpenAPI = text
	}
	shipped, err := json.MarshalIndent(m, "", "  ")
	return append(shipped, '\n'), err
}
