package prepare

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"partneredge/host/compilecache"
)

// Cache keeps what Rewrite made of modules, without their code: what a host needs that
// has the code compiled. Several processes may use it at once. Nothing in it is checked
// again but for damage, so a module is kept only once its code was compiled.
type Cache struct {
	// Dir is the directory, which nobody else may write to (package compilecache). "":
	// nothing is kept.
	Dir string
}

// Load returns what Rewrite made of a module with the options, but for Wasm; wasm is the
// module, and sum its SHA-256. The error is fs.ErrNotExist where that was not kept, or
// by another version of this package, and wraps compilecache.ErrDamaged where it is
// damaged. It is removed then.
func (c Cache) Load(wasm []byte, sum [sha256.Size]byte, options Options) (*Module, error) {
	if c.Dir == "" {
		return nil, fs.ErrNotExist
	}
	path := c.path(sum, options)
	if _, err := os.Lstat(path); err != nil {
		return nil, fs.ErrNotExist
	}
	text, err := compilecache.ReadFile(path)
	if err == nil {
		var m *Module
		if m, err = parseKept(text, wasm); err == nil {
			return m, nil
		}
	}
	return nil, errors.Join(err, compilecache.Remove(path))
}

// Keep keeps a module that Rewrite made with the options of the one with a SHA-256.
func (c Cache) Keep(m *Module, sum [sha256.Size]byte, options Options) error {
	if c.Dir == "" {
		return nil
	}
	return compilecache.WriteFile(c.path(sum, options), m.appendKept(nil))
}

// path returns the file of a module: another one for whatever has Rewrite do otherwise.
func (c Cache) path(sum [sha256.Size]byte, options Options) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %+v %x", version(), options, sum)
	return filepath.Join(c.Dir, hex.EncodeToString(h.Sum(nil)))
}

// source holds the files of this package.
//
//go:embed *.go
var source embed.FS

// version returns a sum of this package's source: whoever changes the rewrite need not
// think of what was kept before.
var version = sync.OnceValue(func() string {
	h := sha256.New()
	files, _ := fs.Glob(source, "*.go") // the error is that of a pattern
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := source.ReadFile(file)
		fmt.Fprintf(h, "%s %d %v\n%s", file, len(text), err, text)
	}
	return hex.EncodeToString(h.Sum(nil))
})

// appendKept appends what parseKept reads:
//
//	sum of Wasm (32 bytes), pages, most pages,
//	count (module name, import name, kind byte)*   imports
//	count (name)*                                  globals
//	count (offset, place in the module, length)*   data
//
// Numbers are unsigned LEB128, names as in a module.
func (m *Module) appendKept(out []byte) []byte {
	sum := sha256.Sum256(m.Wasm)
	out = append(out, sum[:]...)
	out = appendU32(appendU32(out, m.Pages), m.MaxPages)
	out = appendU32(out, uint32(len(m.Imports)))
	for _, im := range m.Imports {
		out = append(appendName(appendName(out, im.Module), im.Name), byte(im.Kind))
	}
	out = appendU32(out, uint32(len(m.Globals)))
	for _, name := range m.Globals {
		out = appendName(out, name)
	}
	out = appendU32(out, uint32(len(m.Data)))
	for _, d := range m.Data {
		out = appendU32(appendU32(appendU32(out, d.Offset), uint32(d.at)), uint32(len(d.Bytes)))
	}
	return out
}

// parseKept reads what appendKept wrote of the module that wasm is.
func parseKept(text, wasm []byte) (*Module, error) {
	r, m := &reader{b: text}, &Module{}
	copy(m.Sum[:], r.bytes(len(m.Sum)))
	m.Pages, m.MaxPages = r.u32(), r.u32()
	for range r.count() {
		m.Imports = append(m.Imports, Import{Module: r.name(), Name: r.name(), Kind: Kind(r.oneOf("kind", 0, 1, 2, 3))})
	}
	for range r.count() {
		m.Globals = append(m.Globals, r.name())
	}
	n := r.count()
	m.Data = make([]Segment, 0, n)
	for range n {
		offset, at, size := r.u32(), int(r.u32()), int(r.u32())
		if uint64(offset)+uint64(size) > uint64(m.Pages)*PageSize || at+size > len(wasm) {
			r.fail(r.at, "data segment outside memory or module")
		}
		if !r.ok() {
			break
		}
		m.Data = append(m.Data, Segment{offset, wasm[at:][:size:size], at})
	}
	if r.ok() && !r.end() {
		r.fail(r.at, "it is too long")
	}
	if !r.ok() {
		return nil, fmt.Errorf("%w: %w", compilecache.ErrDamaged, r.err)
	}
	return m, nil
}
