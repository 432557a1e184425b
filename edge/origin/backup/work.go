package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"partneredge/store/durable"
)

// workPrefix begins the names of folders that backups are made in.
const workPrefix = ".backup-"

// WorkFolder makes a folder, for its owner only, that a backup is made in, and locks it
// against RemoveStale. remove ends both.
func WorkFolder(in string) (work string, remove func() error, err error) {
	for range 3 { // RemoveStale may take it for stale before it is locked
		if work, err = os.MkdirTemp(in, workPrefix); err != nil {
			return "", nil, err
		}
		var unlock func()
		if unlock, err = durable.LockFile(filepath.Join(work, "lock")); err == nil {
			return work, func() error { defer unlock(); return os.RemoveAll(work) }, nil
		}
		err = errors.Join(err, os.RemoveAll(work))
	}
	return "", nil, err
}

// RemoveStale removes from an origin's directory the folders of backups that were killed.
func RemoveStale(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), workPrefix) {
			continue
		}
		work := filepath.Join(dir, entry.Name())
		unlock, locking := durable.LockFile(filepath.Join(work, "lock"))
		switch {
		case errors.Is(locking, durable.ErrLocked), errors.Is(locking, fs.ErrNotExist): // it is being made, or is gone
		case locking != nil:
			err = errors.Join(err, locking)
		default:
			err = errors.Join(err, os.RemoveAll(work))
			unlock()
		}
	}
	return err
}
