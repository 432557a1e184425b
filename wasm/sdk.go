// Package wasm holds what the modules of others are built with: the very files that
// the modules of this repository are built with, embedded so that `edge module new`
// can write them anywhere, without a network.
package wasm

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed abi/*.go answer/*.go guest/*.go guest/c/edge.h guest/rust/edge.rs
//go:embed handlers/query/*.go isotime/*.go percent/*.go typeid/*.go
var sources embed.FS

// Language is one that modules can be started in.
type Language string

// Languages. Any other that compiles to WebAssembly will do as well, but has no SDK.
const (
	Go   Language = "go"
	Rust Language = "rust"
	C    Language = "c"
)

// goMod makes the Go files a module, which an author's go.mod replaces by a folder.
// Exported functions (go:wasmexport) came with Go 1.24.
const goMod = "module partneredge/wasm\n\ngo 1.24\n"

// SDK returns the files that a module in a language needs besides its own, by their
// slash-separated paths in the module's folder. In Rust and C package abi is among them, to
// read: it describes what the language's one file leaves out.
func SDK(l Language) (map[string][]byte, error) {
	switch l {
	case Go:
		files, err := goFiles(".", "sdk/")
		files["sdk/go.mod"] = []byte(goMod)
		return files, err
	case Rust:
		return withABI("guest/rust/edge.rs", "src/edge.rs")
	case C:
		return withABI("guest/c/edge.h", "edge.h")
	}
	return nil, fmt.Errorf("no SDK for the language %q", l)
}

// withABI returns an embedded file under a path of its own, and package abi.
func withABI(file, path string) (map[string][]byte, error) {
	files, err := goFiles("abi", "")
	if err == nil {
		files[path], err = sources.ReadFile(file)
	}
	return files, err
}

// goFiles returns the Go files of an embedded folder, by their paths below prefix.
func goFiles(folder, prefix string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(sources, folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files[prefix+path], err = sources.ReadFile(path)
		return err
	})
	return files, err
}
