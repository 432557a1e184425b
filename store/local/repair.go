package local

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"partneredge/store/durable"
)

// A file is, as buntdb's are, a row of Redis commands: "*3\r\n$3\r\nset\r\n",
// then key and value, each as "$LENGTH\r\nBYTES\r\n"; or "*2\r\n$3\r\ndel\r\n"
// and a key.
//
// buntdb trusts what it reads: a damaged length makes it ask for as much memory,
// and an empty command makes it panic. So repair reads the file first, strictly.
//
// Only what lies before the damage is kept. The store is then as it was at an
// earlier moment, its cursor included, and the node asks the origin for every
// change since. Skipping a damaged command could bring back a record that a
// later, lost one had replaced. What the disk does not read is damage as well, as long as it
// reads some of the file.

// maxField is the most bytes a key or a value may have.
const maxField = 64 << 20

// errDamaged is the error of a file that holds what this program never wrote.
var errDamaged = errors.New("damaged")

// repaired describes what was done to a file when it was opened.
type repaired struct {
	kept, lost int64  // bytes
	aside      string // where the damaged file is; "" when it was whole or just cut short
	failed     error  // why there is nothing at aside, and the file was cut
	damage     error  // errDamaged, or the disk's
}

// repair makes the file at path, if there is none, and one that buntdb can load
// of what is there. A command that the crash of its writer cut short is cut off.
// If there is any other damage, the file is set aside under another name and its
// good beginning takes its place; without room for that, only its beginning is left.
func repair(disk durable.Disk, path string, now time.Time) (r repaired, err error) {
	f, err := disk.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if err := disk.SyncDir(filepath.Dir(path)); err != nil { // the file may be new
		return r, err
	}
	info, err := f.Stat()
	if err != nil {
		return r, err
	}
	r.kept, err = goodUntil(f, info.Size())
	r.lost = info.Size() - r.kept
	if r.lost > 0 && (err == nil || errors.Is(err, errDamaged)) {
		err = judgeTail(f, r.kept, r.lost, err)
	}
	switch {
	case err == nil && r.lost > 0:
		return r, f.Truncate(r.kept)
	case errors.Is(err, errDamaged), err != nil && readsSome(f, info.Size()):
		r.damage = err
		r.aside = durable.DamagedName(path, now)
		return r, setAside(disk, f, path, &r)
	}
	return r, err
}

// readsSome reports whether the disk reads anything of a file of some bytes. Else it may be away
// for a while. It is asked for a few bytes only, since it may take seconds for each.
func readsSome(f io.ReaderAt, size int64) bool {
	const tries = 8
	for i := range int64(tries) {
		if n, _ := f.ReadAt(make([]byte, 1), (size-1)*i/(tries-1)); n > 0 {
			return true
		}
	}
	return false
}

// setAside gives the damaged file f another name, and path to a copy of its good
// beginning. Where that fails, as on a full disk, f itself is cut, which needs no space,
// unless its damage is the disk's: what the disk reads behind that would be lost.
func setAside(disk durable.Disk, f durable.File, path string, r *repaired) error {
	r.failed = disk.Link(path, r.aside)
	if r.failed == nil {
		r.failed = disk.Write(path, 0o600, func(w io.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(f, 0, r.kept))
			return err
		})
	}
	if r.failed == nil {
		return nil
	}
	if durable.IsAt(f, path) {
		_ = disk.Remove(r.aside) // which is a name of f
		if !errors.Is(r.damage, errDamaged) {
			return fmt.Errorf("%w, and it cannot be set aside: %w", r.damage, r.failed)
		}
		return errors.Join(f.Truncate(r.kept), f.Sync())
	}
	err := r.failed
	if durable.IsAt(f, r.aside) { // the copy is in place, and may not be there after a power cut
		err = errors.Join(err, disk.Rename(r.aside, path))
	}
	return fmt.Errorf("set aside: %w", err)
}

// judgeTail returns nil when the size bytes at the end of f are the beginning of
// a command that was being written, or blocks that the file system gave the file
// and that were never written. Else it returns errDamaged. found is the error
// that the reading of these bytes ended with.
func judgeTail(f io.ReaderAt, at, size int64, found error) error {
	if size > 2*maxField {
		return errDamaged
	}
	tail := make([]byte, size)
	if _, err := f.ReadAt(tail, at); err != nil {
		return err
	}
	if len(bytes.Trim(tail, "\x00")) == 0 {
		return nil
	}
	// A later command that is there shows that the one before was whole once.
	rest := tail[1:]
	if bytes.Contains(rest, []byte("*3\r\n$3\r\nset\r\n")) || bytes.Contains(rest, []byte("*2\r\n$3\r\ndel\r\n")) {
		return errDamaged
	}
	return found
}

// goodUntil returns how many bytes at the beginning are whole commands with
// sealed values. The error is errDamaged when what follows can be no command's
// beginning.
func goodUntil(r io.Reader, size int64) (int64, error) {
	s := &scanner{r: bufio.NewReaderSize(r, int(min(size, 1<<20))), size: size}
	for {
		good := s.at
		switch err := s.command(); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return good, nil
		case err != nil:
			return good, err
		}
	}
}

// scanner reads commands and counts their bytes.
type scanner struct {
	r    *bufio.Reader
	at   int64
	size int64
	key  []byte
	text []byte // the last text that was read
}

func (s *scanner) command() error {
	fields, err := s.number('*')
	if err != nil {
		return err
	}
	if err := s.readText(); err != nil {
		return err
	}
	name := string(s.text)
	if err := s.readText(); err != nil {
		return err
	}
	switch {
	case fields == 2 && name == "del":
		return nil
	case fields != 3 || name != "set":
		return errDamaged
	}
	s.key = append(s.key[:0], s.text...)
	if err := s.readText(); err != nil {
		return err
	}
	if !sealed(s.key, s.text) {
		return errDamaged
	}
	return nil
}

// readText reads "$LENGTH\r\nBYTES\r\n".
func (s *scanner) readText() error {
	n, err := s.number('$')
	if err != nil {
		return err
	}
	if n > maxField {
		return errDamaged
	}
	if s.at+n+2 > s.size {
		return io.ErrUnexpectedEOF
	}
	if int64(cap(s.text)) < n+2 {
		s.text = make([]byte, n+2)
	}
	s.text = s.text[:n+2]
	if _, err := io.ReadFull(s.r, s.text); err != nil {
		return err
	}
	s.at += n + 2
	if s.text[n] != '\r' || s.text[n+1] != '\n' {
		return errDamaged
	}
	s.text = s.text[:n]
	return nil
}

// number reads the mark, up to nine digits, and the end of the line.
func (s *scanner) number(mark byte) (int64, error) {
	c, err := s.byte()
	if err != nil {
		return 0, err
	}
	if c != mark {
		return 0, errDamaged
	}
	var n int64
	for digits := 0; ; digits++ {
		c, err := s.byte()
		if err != nil {
			return 0, err
		}
		if c == '\r' && digits > 0 {
			break
		}
		if c < '0' || c > '9' || digits == 9 {
			return 0, errDamaged
		}
		n = n*10 + int64(c-'0')
	}
	if c, err = s.byte(); err != nil {
		return 0, err
	}
	if c != '\n' {
		return 0, errDamaged
	}
	return n, nil
}

func (s *scanner) byte() (byte, error) {
	c, err := s.r.ReadByte()
	if err == nil {
		s.at++
	}
	return c, err
}
