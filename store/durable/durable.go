// Package durable writes files that are whole after a crash, and locks
// directories. It is the only place of the program that renames a file into
// place or syncs a directory.
//
// A function that returns nil has brought its work to disk: a process that is
// killed, or a machine that loses its power, afterwards finds it there. A
// function that returns an error has left at its path what was there before,
// or the whole new file.
package durable

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// tempPrefix begins the name of a file that is being written.
const tempPrefix = ".part-"

// bufferSize of a streamed file, in bytes.
const bufferSize = 1 << 20

// WriteFile replaces the file at path, if there is one, by data. The file gets
// mode perm, whatever the umask.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return create(path, perm, os.Rename, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// Write is WriteFile of what write writes to a buffer. When write fails, nothing
// is replaced and its error is returned.
func Write(path string, perm os.FileMode, write func(io.Writer) error) error {
	return create(path, perm, os.Rename, func(f *os.File) error {
		w := bufio.NewWriterSize(f, bufferSize)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	})
}

// CreateFile is WriteFile for a file that must not be there: if it is, the error
// is os.ErrExist. The file system must know hard links.
func CreateFile(path string, data []byte, perm os.FileMode) error {
	return create(path, perm, os.Link, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}

// create has fill write a temporary file beside path, and publish give it the
// name path.
func create(path string, perm os.FileMode, publish func(from, to string) error, fill func(*os.File) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after a rename there is nothing at that name
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
	return SyncDir(dir)
}

// Rename moves a file or a directory whose content is on disk already to a
// name on the same file system. A file at that name is replaced.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}

// SyncDir brings the names in a directory to disk: which files were made,
// renamed and removed. On Windows, where directories cannot be synced, it does
// nothing.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// RemoveTemp removes the temporary files that a killed process has left in dir.
// No other process or goroutine may be writing files in dir meanwhile.
func RemoveTemp(dir string) error {
	entries, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	if err != nil {
		return err
	}
	for _, name := range entries {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// IsAt reports whether path names the open file f: after an error it tells which
// of two files is in place.
func IsAt(f *os.File, path string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(own, named)
}
