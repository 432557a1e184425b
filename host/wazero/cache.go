package wazero

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"partneredge/host/compilecache"
	"partneredge/host/engine"
)

// A module is kept in a folder of its own, which is named by its SHA-256 and appears
// whole or not at all:
//
//	skeleton                    the module without its code
//	wazero-VERSION-SYSTEM/NAME  its machine code, as wazero writes it, by the name that
//	                            wazero gives to the skeleton's
//
// and a sum beside each file; later the file code as well (mapping.go). wazero knows
// machine code by the module that it is given, which it reads and validates every time,
// all code of it; of the skeleton there is next to nothing to read. Only what wazero has
// validated and compiled gets a folder.

// skeletonFile is the name of the skeleton in a module's folder.
const skeletonFile = "skeleton"

// codeSection is the identifier of the section that holds functions' code.
const codeSection = 10

// noCode is a function's code, behind its length: no locals, unreachable, end. It is
// valid whatever the function's type; run, it traps.
const noCode = "\x03\x00\x00\x0b"

// skeleton returns a valid module with noCode for each function's code.
func skeleton(wasm []byte) []byte {
	const header = 8
	out := append([]byte{}, wasm[:header]...)
	for rest := wasm[header:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest[1:])
		content := rest[1+n:][:size]
		if rest[0] == codeSection {
			functions, _ := binary.Uvarint(content)
			content = append(binary.AppendUvarint(nil, functions), strings.Repeat(noCode, int(functions))...)
		}
		out = append(binary.AppendUvarint(append(out, rest[0]), uint64(len(content))), content...)
		rest = rest[1+n+int(size):]
	}
	return out
}

// dir returns a module's folder.
func (e *wazeroEngine) dir(sum [sha256.Size]byte) string {
	return filepath.Join(e.CacheDir, "wazero", hex.EncodeToString(sum[:]))
}

// machineCode lists the files of machine code in a folder. wazero writes to files that
// end in .tmp, and renames them.
func machineCode(dir string) (paths []string) {
	found, _ := filepath.Glob(filepath.Join(dir, "*", "*")) // dir holds no pattern: the error is that of one
	return slices.DeleteFunc(found, func(path string) bool {
		return strings.HasSuffix(path, ".tmp") || strings.HasSuffix(path, compilecache.SumSuffix)
	})
}

// keep keeps a module that was compiled into the folder part. All of it is written
// there: in the module's own folder, another process might take what wazero makes of the
// skeleton for the module's code.
func (e *wazeroEngine) keep(ctx context.Context, wasm []byte, part string) error {
	compiled := machineCode(part)
	if len(compiled) != 1 {
		return fmt.Errorf("%d files of machine code, not one", len(compiled))
	}
	kept := filepath.Join(part, "kept")
	text := skeleton(wasm)
	c, err := e.compile(ctx, text, kept)
	if err != nil {
		return err
	}
	if err := c.Close(ctx); err != nil {
		return err
	}
	named := machineCode(kept)
	if len(named) != 1 {
		return fmt.Errorf("%d files of a skeleton's machine code, not one", len(named))
	}
	if err := errors.Join(os.Rename(compiled[0], named[0]), compilecache.Record(named[0]),
		compilecache.WriteFile(filepath.Join(kept, skeletonFile), text)); err != nil {
		return err
	}
	if err := os.Rename(kept, e.dir(sha256.Sum256(wasm))); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil // another process was first
}

// Load implements engine.Engine.
func (e *wazeroEngine) Load(ctx context.Context, sum [sha256.Size]byte) engine.Code {
	if e.CacheDir == "" {
		return nil
	}
	dir := e.dir(sum)
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	c, err := e.load(ctx, dir)
	switch {
	case err == nil:
		return c
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, errLost):
	case errors.Is(err, errOutdated):
		e.Log.Info("compiled module in the cache is outdated, compiling it anew", "dir", dir)
	default:
		e.Log.Warn("compiled module in the cache is damaged, compiling it anew", "err", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		e.Log.Warn("compiled module stays in the cache", "dir", dir, "err", err)
	}
	return nil
}

var (
	errLost     = errors.New("a file of the compiled module is lost")
	errOutdated = errors.New("the module was compiled by another version of wazero, or for another processor")
)

// load loads what is kept in a module's folder.
func (e *wazeroEngine) load(ctx context.Context, dir string) (*code, error) {
	files := machineCode(dir)
	if _, err := os.Lstat(filepath.Join(dir, skeletonFile)); err != nil || len(files) == 0 {
		return nil, errLost
	}
	text, err := compilecache.ReadFile(filepath.Join(dir, skeletonFile))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		if err := compilecache.Verify(path); err != nil {
			return nil, err
		}
	}
	before := state(files)
	c, err := e.compile(ctx, text, dir)
	if err != nil {
		return nil, err
	}
	// Where wazero has no use for the file, it compiles the skeleton and writes another.
	if !slices.Equal(before, state(machineCode(dir))) {
		return nil, errors.Join(errOutdated, c.Close(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dir = dir
	return c, nil
}

// state describes files so that one that was written anew is not as it was.
func state(paths []string) (all []string) {
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			all = append(all, fmt.Sprint(path, info.Size(), info.ModTime().UnixNano()))
		}
	}
	return all
}
