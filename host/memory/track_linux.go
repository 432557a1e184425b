package memory

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// userfaultfd, by Linux's Documentation/admin-guide/mm/userfaultfd.rst and
// include/uapi/linux/userfaultfd.h. Nobody reads the descriptor: in the asynchronous
// mode the kernel permits a write to a protected page and removes its protection,
// which a scan then finds. In a registered range the kernel also does not map the
// neighbours of a page that is read, so there are fewer pages to look at.

const (
	uffdUserModeOnly = 1 // flag of userfaultfd(2): what an ordinary user may have

	uffdAPI           = 0xaa
	uffdioAPI         = 0xc018aa3f
	uffdioRegister    = 0xc020aa00
	uffdioProtect     = 0xc018aa06
	uffdWPUnpopulated = 1 << 13 // pages that are not there yet as well
	uffdWPAsync       = 1 << 15
	uffdModeWP        = 1 << 1 // of a registration
	uffdProtect       = 1 << 0 // of a protection
)

func openTracker() (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserModeOnly, 0, 0)
	if errno != 0 {
		return 0, fmt.Errorf("userfaultfd: %w", errno)
	}
	arg := struct{ api, features, ioctls uint64 }{uffdAPI, uffdWPUnpopulated | uffdWPAsync, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uffdioAPI, uintptr(unsafe.Pointer(&arg))); errno != 0 {
		_ = unix.Close(int(fd))
		return 0, fmt.Errorf("userfaultfd, asynchronous write protection: %w", errno)
	}
	return int(fd), nil
}

// track makes the kernel note writes to memory.
func (i *Image) track(memory []byte) error {
	i.once.Do(func() { i.tracker, i.failed = openTracker() })
	if i.failed != nil {
		return i.failed
	}
	start, length := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))), uint64(len(memory))
	register := struct{ start, length, mode, ioctls uint64 }{start, length, uffdModeWP, 0}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(i.tracker), uffdioRegister, uintptr(unsafe.Pointer(&register))); errno != 0 {
		return fmt.Errorf("register: %w", errno)
	}
	protect := struct{ start, length, mode uint64 }{start, length, uffdProtect}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(i.tracker), uffdioProtect, uintptr(unsafe.Pointer(&protect))); errno != 0 {
		return fmt.Errorf("protect: %w", errno)
	}
	return nil
}
