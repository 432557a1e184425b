//go:build unix

package compilecache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Check returns an *ExposedError if the directory, or anything in it, belongs to
// another user than that of the process or root, or if its mode lets a group or
// all users write to it. Files that disappear meanwhile are passed over.
func Check(dir string) error {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("compile cache: %w", err)
	}
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return gone(err)
		}
		// A link is judged by what it leads to: it has no mode of its own.
		info, err := os.Stat(path)
		if err != nil {
			return gone(err)
		}
		return checkFile(path, info)
	})
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("compile cache: %w", err)
}

func checkFile(path string, info fs.FileInfo) error {
	user := os.Geteuid()
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 && int(stat.Uid) != user {
		return &ExposedError{path, fmt.Sprintf("belongs to user %d, not to user %d of this process", stat.Uid, user),
			fmt.Sprintf("chown -R %d '%s'", user, path)}
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return &ExposedError{path, fmt.Sprintf("may be written to by other users (mode %04o)", mode),
			fmt.Sprintf("chmod -R go-w '%s'", path)}
	}
	return nil
}
