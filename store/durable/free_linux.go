package durable

import "golang.org/x/sys/unix"

// Free returns how many bytes the file system of a directory has, and how many of
// them this process may still use.
func Free(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}
