package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrLocked is returned for a lock that another process, or another part of
// this one, holds.
var ErrLocked = errors.New("in use by another process")

// Lock makes the directory, for its owner only, where it is missing, and locks
// its file "lock". The system unlocks it when the process ends, however it
// ends. On systems without flock nothing is locked.
func Lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	unlock, err = LockFile(filepath.Join(dir, "lock"))
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("%s is %w", dir, ErrLocked)
	}
	return unlock, err
}

// LockFile makes the file where it is missing, and locks it. The file stays
// when it is unlocked. The error is ErrLocked when somebody else holds the lock:
// LockFile does not wait.
func LockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := tryLock(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() {
		giveUp(f)
		_ = f.Close()
	}, nil
}

// lockRetry is the time between two tries to lock a file that somebody else has locked.
const lockRetry = 20 * time.Millisecond

// AwaitFile is LockFile, but waits until nobody else holds the lock. When ctx ends before, the
// error is that of ctx and ErrLocked.
func AwaitFile(ctx context.Context, path string) (unlock func(), err error) {
	retry := time.Tick(lockRetry)
	for {
		unlock, err = LockFile(path)
		if !errors.Is(err, ErrLocked) {
			return unlock, err
		}
		select {
		case <-retry:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
