package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"partneredge/store/durable"
)

// Prefixes of the names of folders that backups and restored directories are made in.
// Others keep backups where these are made, so the names are no other program's.
const (
	backupPrefix  = ".edge-backup-"
	restorePrefix = ".edge-restore-"
)

// lockText is the content of the lock file of such a folder.
const lockText = "edge makes a backup here, or restores one\n"

// WorkFolder makes a folder, for its owner only, that a backup is made in, and locks it
// against RemoveStale. remove ends both.
func WorkFolder(in string) (work string, remove func() error, err error) {
	return workFolder(in, backupPrefix)
}

// RestoreFolder is WorkFolder for a directory that is restored. Once that has its own name,
// remove unlocks it and removes nothing. The file of the lock is that of durable.Lock.
func RestoreFolder(in string) (work string, remove func() error, err error) {
	return workFolder(in, restorePrefix)
}

func workFolder(in, prefix string) (work string, remove func() error, err error) {
	for range 3 { // RemoveStale may take it for stale before it is locked
		if work, err = os.MkdirTemp(in, prefix); err != nil {
			return "", nil, err
		}
		lock := filepath.Join(work, "lock")
		var unlock func()
		if unlock, err = durable.LockFile(lock); err == nil {
			remove = func() error { defer unlock(); return os.RemoveAll(work) }
			if err = os.WriteFile(lock, []byte(lockText), 0o600); err == nil {
				return work, remove, nil
			}
			return "", nil, errors.Join(err, remove())
		}
		err = errors.Join(err, os.RemoveAll(work))
	}
	return "", nil, err
}

// RemoveStale removes from dir the folders of backups and restores that were killed: those
// of their names whose lock file is theirs and unlocked, and empty ones. Where the system
// has no locks it removes nothing.
func RemoveStale(dir string) error {
	entries, err := os.ReadDir(dir)
	if !durable.Locks {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() && (strings.HasPrefix(name, backupPrefix) || strings.HasPrefix(name, restorePrefix)) {
			err = errors.Join(err, removeStale(filepath.Join(dir, name)))
		}
	}
	return err
}

func removeStale(work string) error {
	lock := filepath.Join(work, "lock")
	switch info, err := os.Lstat(lock); {
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Remove(work) // killed before it had a lock
		return nil
	case errors.Is(err, fs.ErrPermission), err == nil && (!info.Mode().IsRegular() || info.Size() != int64(len(lockText))): // somebody else's
		return nil
	}
	unlock, err := durable.LockFile(lock)
	switch {
	case errors.Is(err, durable.ErrLocked), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // in use, gone, or another user's
		return nil
	case err != nil:
		return err
	}
	defer unlock()
	if text, err := os.ReadFile(lock); err != nil || string(text) != lockText {
		return err
	}
	return os.RemoveAll(work)
}
