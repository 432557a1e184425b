//go:build unix

package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Locks is true where the system has locks. Without them each lock is taken at once.
const Locks = true

func tryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return os.NewSyscallError("flock", err)
}

// giveUp gives the lock up for all who have the open file: a process that is being started
// has it until it becomes another program.
func giveUp(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
