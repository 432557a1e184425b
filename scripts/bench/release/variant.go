package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// variant has the module's first function begin with "i32.const n; drop".
func variant(wasm []byte, n uint32) ([]byte, error) {
	for at := preamble; at < len(wasm); {
		id := wasm[at]
		size, width, err := uvarint(wasm[at+1:])
		if err != nil {
			return nil, err
		}
		begin := at + 1 + width
		end := begin + size
		if end > len(wasm) {
			return nil, errTruncated
		}
		if id != codeSection {
			at = end
			continue
		}
		section, err := variantCode(wasm[begin:end], n)
		if err != nil {
			return nil, err
		}
		out := binary.AppendUvarint(append([]byte(nil), wasm[:at+1]...), uint64(len(section)))
		return append(append(out, section...), wasm[end:]...), nil
	}
	return nil, errors.New("it has no code")
}

// variantCode is a section of code, changed in its first body:
//
//	count (size body)*   body: count (count type)* expression
func variantCode(section []byte, n uint32) ([]byte, error) {
	_, counted, err := uvarint(section)
	if err != nil {
		return nil, err
	}
	size, width, err := uvarint(section[counted:])
	if err != nil {
		return nil, err
	}
	begin := counted + width
	if begin+size > len(section) {
		return nil, errTruncated
	}
	body := section[begin : begin+size]
	groups, at, err := uvarint(body)
	if err != nil {
		return nil, err
	}
	for range groups {
		_, width, err := uvarint(body[at:])
		if err != nil {
			return nil, err
		}
		at += width + 1 // and the type
	}
	added := append([]byte(nil), body[:at]...)
	added = append(added, i32Const)
	added = binary.AppendUvarint(added, uint64(n)) // n is small: its sign bit is clear
	added = append(append(added, drop), body[at:]...)
	out := append([]byte(nil), section[:counted]...)
	out = binary.AppendUvarint(out, uint64(len(added)))
	return append(append(out, added...), section[begin+size:]...), nil
}

var errTruncated = errors.New("it is cut short")

// uvarint reads a number and how many bytes it has.
func uvarint(b []byte) (n, width int, err error) {
	v, width := binary.Uvarint(b)
	if width <= 0 {
		return 0, 0, errTruncated
	}
	return int(v), width, nil
}
