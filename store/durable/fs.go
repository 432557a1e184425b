package durable

import (
	"errors"
	"io"
	"os"
	"runtime"
)

// FS is a file system as durable writes need it. OS is the machine's; that of
// package durabletest fails, fills up and loses its power as a test asks.
type FS interface {
	// OpenFile, CreateTemp, Rename, Link and Remove are those of package os.
	OpenFile(name string, flag int, perm os.FileMode) (File, error)
	CreateTemp(dir, pattern string) (File, error)
	Rename(from, to string) error
	Link(from, to string) error
	Remove(name string) error
	// SyncDir brings the names in a directory to disk: which files were made,
	// renamed and removed.
	SyncDir(dir string) error
}

// File is an open file of an FS.
type File interface {
	io.ReadWriteCloser
	io.ReaderAt
	io.WriterAt
	Name() string
	Stat() (os.FileInfo, error)
	Chmod(perm os.FileMode) error
	Truncate(size int64) error
	// Sync brings the file's bytes and length to disk. After an error it is not
	// known which of them are there, and a later Sync does not say so: nothing
	// more may be added to the file.
	Sync() error
	// SyncData does as Sync, but leaves out the file's times where the system can
	// tell them apart.
	SyncData() error
}

// OS is the file system of the machine.
type OS struct{}

// OpenFile opens a file as os.OpenFile does.
func (OS) OpenFile(name string, flag int, perm os.FileMode) (File, error) {
	return opened(os.OpenFile(name, flag, perm))
}

// CreateTemp makes a file as os.CreateTemp does.
func (OS) CreateTemp(dir, pattern string) (File, error) {
	return opened(os.CreateTemp(dir, pattern))
}

func opened(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err // not an interface that holds a nil pointer
	}
	return osFile{f}, nil
}

// Rename renames as os.Rename does.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Link makes a hard link as os.Link does.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// Remove removes a file as os.Remove does.
func (OS) Remove(name string) error { return os.Remove(name) }

// SyncDir syncs a directory. On Windows, where directories cannot be synced, it
// does nothing.
func (OS) SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type osFile struct{ *os.File }

func (f osFile) SyncData() error { return syncData(f.File) }
