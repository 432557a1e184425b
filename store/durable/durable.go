// Package durable writes files that are whole after a crash, and locks
// directories. It is the only place of the program that renames a file into
// place or syncs a directory, but for the host's caches, which may be lost.
//
// A function that returns nil has brought its work to disk: a process that is
// killed, or a machine that loses its power, afterwards finds it there. A
// function that returns an error has left at its path what was there before,
// or the whole new file.
package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// tempPrefix begins the name of a file that is being written.
const tempPrefix = ".part-"

// bufferSize of a streamed file, in bytes.
const bufferSize = 1 << 20

// WriteFile replaces the file at path on the machine's disk as Disk.WriteFile
// does.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return Disk{}.WriteFile(path, data, perm)
}

// CreateFile makes a file on the machine's disk as Disk.CreateFile does.
func CreateFile(path string, data []byte, perm os.FileMode) error {
	return Disk{}.CreateFile(path, data, perm)
}

// ReadPrivate reads a file that holds a secret. It refuses one that its mode lets
// others than its owner read or write.
func ReadPrivate(path string) ([]byte, error) {
	text, mode, err := readWithMode(path)
	if err == nil && mode&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): chmod 600 '%s'", path, mode, path)
	}
	return text, err
}

// ReadSecret reads a file that holds a secret which an operator has put there. If its
// mode lets others read it, or its group write to it, exposed is that mode, and else 0.
func ReadSecret(path string) (text []byte, exposed os.FileMode, err error) {
	text, mode, err := readWithMode(path)
	if mode&0o027 != 0 {
		exposed = mode
	}
	return text, exposed, err
}

// readWithMode returns a file's content and permissions. On Windows these say nothing of
// who may read the file, and are 0600.
func readWithMode(path string) (text []byte, mode os.FileMode, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		mode = info.Mode().Perm()
		text, err = io.ReadAll(f)
	}
	if runtime.GOOS == "windows" {
		mode = 0o600
	}
	return text, mode, err
}

// Rename renames on the machine's disk as Disk.Rename does.
func Rename(from, to string) error { return Disk{}.Rename(from, to) }

// SyncTree syncs directories of the machine's disk as Disk.SyncTree does.
func SyncTree(root string) error { return Disk{}.SyncTree(root) }

// Disk writes durably to a file system.
type Disk struct {
	FS // nil for that of the machine
}

func (d Disk) fs() FS {
	if d.FS == nil {
		return OS{}
	}
	return d.FS
}

// OpenFile opens a file as os.OpenFile does.
func (d Disk) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	return d.fs().OpenFile(name, flag, perm)
}

// Remove removes a file as os.Remove does. After a power cut it may be back.
func (d Disk) Remove(name string) error { return d.fs().Remove(name) }

// SyncDir brings the names in a directory to disk.
func (d Disk) SyncDir(dir string) error { return d.fs().SyncDir(dir) }

// SyncTree brings the names in a directory to disk, and those in all directories
// below.
func (d Disk) SyncTree(root string) error {
	return filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = d.SyncDir(path)
		}
		return err
	})
}

// WriteFile replaces the file at path, if there is one, by data. The file gets
// mode perm, whatever the umask.
func (d Disk) WriteFile(path string, data []byte, perm os.FileMode) error {
	return d.create(path, perm, d.fs().Rename, whole(data))
}

// Write is WriteFile of what write writes to a buffer. When write fails, nothing
// is replaced and its error is returned.
func (d Disk) Write(path string, perm os.FileMode, write func(io.Writer) error) error {
	return d.create(path, perm, d.fs().Rename, func(f File) error {
		w := bufio.NewWriterSize(f, bufferSize)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	})
}

// CreateFile is WriteFile for a file that must not be there: if it is, the error
// is os.ErrExist. The file system must know hard links.
func (d Disk) CreateFile(path string, data []byte, perm os.FileMode) error {
	return d.create(path, perm, d.fs().Link, whole(data))
}

func whole(data []byte) func(File) error {
	return func(f File) error {
		_, err := f.Write(data)
		return err
	}
}

// create calls fill to write a temporary file beside path, and publish to give it the
// name path.
func (d Disk) create(path string, perm os.FileMode, publish func(from, to string) error, fill func(File) error) error {
	dir := filepath.Dir(path)
	f, err := d.fs().CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	defer d.fs().Remove(f.Name()) // after a rename there is nothing at that name
	err = fill(f)
	if err == nil {
		err = errors.Join(f.Chmod(perm), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := publish(f.Name(), path); err != nil {
		return err
	}
	return d.fs().SyncDir(dir)
}

// Rename moves a file or a directory whose content is on disk already to a
// name on the same file system. A file at that name is replaced.
func (d Disk) Rename(from, to string) error {
	if err := d.fs().Rename(from, to); err != nil {
		return err
	}
	return d.fs().SyncDir(filepath.Dir(to))
}

// Link gives a file whose content is on disk already a second name, in whose place
// there must be none.
func (d Disk) Link(from, to string) error {
	if err := d.fs().Link(from, to); err != nil {
		return err
	}
	return d.fs().SyncDir(filepath.Dir(to))
}

// RemoveTemp removes the temporary files that a killed process has left in dir.
// No other process or goroutine may be writing files in dir meanwhile.
func (d Disk) RemoveTemp(dir string) error {
	entries, err := fs.Glob(os.DirFS(dir), tempPrefix+"*") // dir itself is no pattern
	if err != nil {
		return err
	}
	for _, name := range entries {
		err = errors.Join(err, d.fs().Remove(filepath.Join(dir, name)))
	}
	return err
}

// DamagedName returns the name that a damaged file is kept under.
func DamagedName(path string, now time.Time) string {
	return path + ".damaged-" + now.UTC().Format("20060102T150405.000000")
}

// IsAt reports whether path names the open file f: after an error it tells which
// of two files is in place.
func IsAt(f File, path string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(own, named)
}
