package durabletest

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"partneredge/store/durable"
)

// BadBlocks is the machine's file system, on which some blocks of some files cannot be read.
type BadBlocks struct {
	durable.OS
	mu  sync.Mutex
	bad map[string]map[int64]bool // by the name of the file
}

// BlockSize is the bytes of each block.
const BlockSize = 4 << 10

// Set makes blocks of a file unreadable, and all its others readable. A file of the same name
// in another directory has the same blocks.
func (d *BadBlocks) Set(path string, blocks ...int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bad == nil {
		d.bad = map[string]map[int64]bool{}
	}
	bad := map[int64]bool{}
	for _, block := range blocks {
		bad[block] = true
	}
	d.bad[filepath.Base(path)] = bad
}

// OpenFile opens or makes a file.
func (d *BadBlocks) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	f, err := d.OS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &blocksFile{File: f, disk: d, name: filepath.Base(name)}, nil
}

type blocksFile struct {
	durable.File
	disk *BadBlocks
	name string
	at   int64 // of the next Read
}

// Read reads what comes next, as ReadAt does.
func (f *blocksFile) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, f.at)
	f.at += int64(n)
	return n, err
}

// ReadAt reads up to the first block that cannot be read, as Linux does.
func (f *blocksFile) ReadAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	for from := at; from < at+int64(len(b)); from = (from/BlockSize + 1) * BlockSize {
		if f.disk.bad[f.name][from/BlockSize] {
			n, err := f.File.ReadAt(b[:from-at], at)
			if err == nil {
				err = &os.PathError{Op: "read", Path: f.name, Err: syscall.EIO}
			}
			return n, err
		}
	}
	return f.File.ReadAt(b, at)
}
