package wazero

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"partneredge/host/compilecache"
)

// mappable says that this system can map machine code from files.
const mappable = true

// freeBytes returns how many bytes this process may still use of a folder's file system.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("ask for room in %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// mapFile maps a file over the memory that holds the same machine code, which may run
// meanwhile. Unless the file holds that code and nothing else, and nobody else may write
// to it, the memory stays as it is.
func mapFile(path string, executable []byte) error {
	if err := checkMemory(executable); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := compilecache.Check(path); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != int64(len(executable)) {
		return fmt.Errorf("%w: %s", errOtherCode, path)
	}
	if err := compare(f, executable); err != nil {
		return fmt.Errorf("%w: %s: %w", errOtherCode, path, err)
	}
	// Mapped beside it first: whatever the system has against the mapping it says before
	// the memory is gone.
	beside, err := mapAt(f, nil, len(executable))
	if err != nil {
		return err
	}
	if err := unix.MunmapPtr(beside, uintptr(len(executable))); err != nil {
		return fmt.Errorf("unmap machine code: %w", err)
	}
	_, err = mapAt(f, unsafe.Pointer(&executable[0]), len(executable))
	return err
}

// comparePiece is how many bytes of a file are read and compared at once.
const comparePiece = 64 << 10

// compare returns an error unless a file begins with the machine code. It reads the file: a
// byte that the disk does not give is an error then, and in a mapping the end of the process.
func compare(file io.ReaderAt, executable []byte) error {
	piece := make([]byte, min(comparePiece, len(executable)))
	for at := 0; at < len(executable); at += len(piece) {
		want := executable[at:min(at+len(piece), len(executable))]
		if n, err := file.ReadAt(piece[:len(want)], int64(at)); n < len(want) {
			return err
		}
		if !bytes.Equal(piece[:len(want)], want) {
			return fmt.Errorf("it differs within %d bytes from %d on", len(want), at)
		}
	}
	return nil
}

// mapAt maps machine code from a file, over what is at that address or, if that is nil,
// wherever there is room.
func mapAt(f *os.File, at unsafe.Pointer, size int) (unsafe.Pointer, error) {
	flags := unix.MAP_PRIVATE
	if at != nil {
		flags |= unix.MAP_FIXED
	}
	mapped, err := unix.MmapPtr(int(f.Fd()), 0, at, uintptr(size), unix.PROT_READ|unix.PROT_EXEC, flags)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) { // mounted noexec, say
		return nil, fmt.Errorf("%w from %s: %w", errRefused, f.Name(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("map machine code from %s: %w", f.Name(), err)
	}
	return mapped, nil
}

// checkMemory returns an error unless all of the memory is private to the process, has no
// file, and can be read and run, not written to: as wazero leaves machine code.
func checkMemory(executable []byte) error {
	begin := uint64(uintptr(unsafe.Pointer(&executable[0])))
	end := begin + uint64(len(executable))
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for at := begin; lines.Scan(); {
		var from, to, offset, inode uint64
		var mode, device string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d", &from, &to, &mode, &offset, &device, &inode); err != nil {
			return fmt.Errorf("read /proc/self/maps: %w", err)
		}
		if to <= at {
			continue
		}
		if from > at || mode != "r-xp" || inode != 0 || begin%uint64(os.Getpagesize()) != 0 {
			break
		}
		if at = to; at >= end {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read /proc/self/maps: %w", err)
	}
	return errors.New("machine code is not in memory of its own")
}
