package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// SyncData brings a file's bytes and length to disk. Unlike Sync, it leaves out
// the file's times where the system can tell them apart.
func SyncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
