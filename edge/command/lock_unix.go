//go:build unix

package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockDir makes dir, for its owner only, and takes it for this process: two of
// them over the same files would spoil both. The system takes the lock away when
// the process ends, however it ends.
func lockDir(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, hint(fmt.Errorf("the data directory %s is in use by another process", dir),
				"stop that one, or give --data another directory")
		}
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	return func() { f.Close() }, nil
}
