package durabletest

import (
	"math/rand/v2"
	"os"
	"slices"
)

// sector is the number of bytes that a disk writes whole or not at all.
const sector = 512

// node is a file, whatever its names are.
type node struct {
	perm     os.FileMode
	synced   []byte   // content that a power cut leaves
	unsynced []change // since then, in order
	failed   bool     // a sync of it has failed
}

// change is a write of data at an offset or, without data, a new length.
type change struct {
	at   int64
	data []byte
	size int64
}

func (n *node) change(c change) { n.unsynced = append(n.unsynced, c) }

func (c change) apply(to []byte) []byte {
	if c.data == nil {
		return resized(to, c.size)
	}
	if end := c.at + int64(len(c.data)); end > int64(len(to)) {
		to = resized(to, end)
	}
	copy(to[c.at:], c.data)
	return to
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

// surviving returns the content after a power cut. The system writes what was
// not synced in any order, sector by sector, so rng picks of the sectors.
func (n *node) surviving(rng *rand.Rand) []byte {
	left := slices.Clone(n.synced)
	if rng == nil {
		return left
	}
	for _, c := range n.unsynced {
		if c.data == nil {
			if rng.IntN(2) == 0 {
				left = c.apply(left)
			}
			continue
		}
		for at, rest := c.at, c.data; len(rest) > 0; {
			some := rest[:min(len(rest), int(sector-at%sector))]
			if rng.IntN(2) == 0 {
				left = change{at: at, data: some}.apply(left)
			}
			at, rest = at+int64(len(some)), rest[len(some):]
		}
	}
	return left
}

// file is an open file of a Disk. The real one is not embedded: its ReadFrom
// would write past the disk.
type file struct {
	real    *os.File
	disk    *Disk
	node    *node
	path    string
	appends bool
}

// Name returns the name that the file was opened by.
func (f *file) Name() string { return f.real.Name() }

// Stat describes the file.
func (f *file) Stat() (os.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.do(Stat, f.path, 0); err != nil {
		return nil, err
	}
	return f.real.Stat()
}

// Read reads at the file's own offset.
func (f *file) Read(b []byte) (int, error) { return f.real.Read(b) }

// Close closes the file, which syncs nothing.
func (f *file) Close() error { return f.real.Close() }

// Write writes at the file's own offset.
func (f *file) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	at, err := f.real.Seek(0, 1)
	if err == nil && f.appends {
		at, err = f.real.Seek(0, 2)
	}
	if err != nil {
		return 0, err
	}
	return f.write(b, at, f.real.Write)
}

// WriteAt writes at an offset.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.write(b, at, func(b []byte) (int, error) { return f.real.WriteAt(b, at) })
}

func (f *file) write(b []byte, at int64, do func([]byte) (int, error)) (int, error) {
	fail := f.disk.do(Write, f.path, len(b))
	if fail == ErrPowerCut {
		return 0, fail
	}
	if f.node.failed {
		f.disk.again = append(f.disk.again, f.path)
	}
	if fail != nil {
		b = b[:len(b)/2]
	}
	n, err := do(b)
	if n > 0 {
		f.node.change(change{at: at, data: slices.Clone(b[:n])})
	}
	if fail != nil {
		return n, fail
	}
	return n, err
}

// Truncate sets the length.
func (f *file) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.do(Truncate, f.path, 0); err != nil {
		return err
	}
	if err := f.real.Truncate(size); err != nil {
		return err
	}
	f.node.change(change{size: size})
	return nil
}

// Chmod sets the mode, which counts as synced.
func (f *file) Chmod(perm os.FileMode) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.do(Chmod, f.path, 0); err != nil {
		return err
	}
	f.node.perm = perm
	return f.real.Chmod(perm)
}

// Sync brings the content to safety. One that fails loses what was written
// since the last: the system takes it for written, so a later sync does not
// write it either (https://lwn.net/Articles/752063/).
func (f *file) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.do(Sync, f.path, 0); err != nil {
		if err != ErrPowerCut {
			f.node.failed, f.node.unsynced = true, nil
		}
		return err
	}
	for _, c := range f.node.unsynced {
		f.node.synced = c.apply(f.node.synced)
	}
	f.node.unsynced = nil
	return nil
}

// SyncData does as Sync.
func (f *file) SyncData() error { return f.Sync() }

// ReadAt reads at an offset.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	err := f.disk.do(ReadAt, f.path, 0)
	f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.real.ReadAt(b, at)
}
