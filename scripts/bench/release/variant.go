package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// variants are all modules with code that no other n gives: what they do is the
// same, and nothing that was compiled of them before helps.
func (b *bench) variants(n uint32) (map[string][]byte, error) {
	files, err := filepath.Glob(filepath.Join(b.modules(), "*.wasm"))
	if err != nil {
		return nil, err
	}
	all := make(map[string][]byte)
	for _, file := range files {
		wasm, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		if all[name], err = variant(wasm, n); err != nil {
			return nil, fmt.Errorf("changing %s: %w", file, err)
		}
	}
	return all, nil
}

// Of the binary format of WebAssembly.
const (
	preamble    = 8
	codeSection = 10
	i32Const    = 0x41
	drop        = 0x1a
)

// variant makes the module's first function begin with "i32.const n; drop". A module is
//
//	preamble (id size content)*     content of the code section: count (size body)*
//	                                body: count (count type)* expression
func variant(wasm []byte, n uint32) ([]byte, error) {
	r := reader{bytes.NewReader(wasm), nil}
	r.skip(preamble)
	id := r.at()
	for r.number() != codeSection && r.err == nil {
		r.skip(r.number())
		id = r.at()
	}
	size := r.number()
	section := r.at()
	r.number() // of functions
	first := r.at()
	length := r.number()
	body := r.at()
	for range r.number() {
		r.number()
		r.number() // a type is one byte, as an id is, and below 128
	}
	if code := r.at(); r.err == nil {
		added := binary.AppendUvarint([]byte{i32Const}, uint64(n)) // n is small: its sign bit is clear
		changed := slices.Concat(wasm[body:code], added, []byte{drop}, wasm[code:body+length])
		content := slices.Concat(wasm[section:first], sized(changed), wasm[body+length:section+size])
		return slices.Concat(wasm[:id], []byte{codeSection}, sized(content), wasm[section+size:]), nil
	}
	return nil, fmt.Errorf("find the first function: %w", r.err)
}

// sized returns b behind its length.
func sized(b []byte) []byte { return append(binary.AppendUvarint(nil, uint64(len(b))), b...) }

// reader reads a module that an engine accepts. It keeps the first error, such as
// that of a module without code.
type reader struct {
	*bytes.Reader
	err error
}

func (r *reader) at() int { return int(r.Size()) - r.Len() }

func (r *reader) skip(n int) { _, _ = r.Seek(int64(n), io.SeekCurrent) }

func (r *reader) number() int {
	v, err := binary.ReadUvarint(r)
	r.err = cmp.Or(r.err, err)
	return int(v)
}
