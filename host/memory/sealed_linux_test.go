package memory

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestImageIsSealed tries to change the file of an image, from which every sandbox
// of a module starts: by writing, growing, shrinking, mapping it for writing, and
// taking the seals off.
func TestImageIsSealed(t *testing.T) {
	image := newTestImage(t)
	before := bytes.Clone(image.Bytes())
	for name, try := range map[string]func() error{
		"write":  func() error { _, err := unix.Pwrite(image.fd, []byte("x"), 0); return err },
		"grow":   func() error { return unix.Ftruncate(image.fd, testSize+pageSize) },
		"shrink": func() error { return unix.Ftruncate(image.fd, testSize-pageSize) },
		"map for writing": func() error {
			b, err := unix.Mmap(image.fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err == nil {
				b[0]++
				_ = unix.Munmap(b)
			}
			return err
		},
		"seal anew": func() error {
			_, err := unix.FcntlInt(uintptr(image.fd), unix.F_ADD_SEALS, unix.F_SEAL_EXEC)
			return err
		},
	} {
		if err := try(); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, want %v", name, err, unix.EPERM)
		}
	}
	if !bytes.Equal(image.Bytes(), before) {
		t.Error("the image has changed")
	}
}
