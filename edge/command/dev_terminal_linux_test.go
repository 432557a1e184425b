package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"partneredge/edge/output"
)

// openTerminal returns a terminal, and the side on which its output is read.
func openTerminal(t *testing.T) (terminal, reader *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("NOT TESTED: there are no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { reader.Close() })
	if err := unix.IoctlSetPointerInt(int(reader.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("NOT TESTED: there are no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, reader
}

// TestDevEndsTheLineOfProgress: the error of an edge dev that fails while it compiles does not
// follow the progress on the same line.
func TestDevEndsTheLineOfProgress(t *testing.T) {
	t.Parallel()
	terminal, reader := openTerminal(t)
	err := failingDev(t, func(c *devConfig) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(c.modules)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "agents.wasm"), []byte("\x00asm\x01\x00\x00\x00broken"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.modules, c.compiling = dir, output.NewCompiling(terminal)
	})
	terminal.Close()
	text, readErr := io.ReadAll(reader)
	if readErr != nil && !errors.Is(readErr, syscall.EIO) { // which is its end
		t.Fatal(readErr)
	}
	const cleared = "\r\x1b[K"
	if !strings.Contains(string(text), "compiling modules") || !strings.HasSuffix(string(text), cleared) {
		t.Errorf("before %v it wrote %q, want progress, and %q at the end", err, text, cleared)
	}
}
