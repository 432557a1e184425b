package local

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData brings a file's bytes and length to disk, not its times.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
