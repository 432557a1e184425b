package local

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// A file is, as buntdb's is, a row of Redis commands: "*3\r\n$3\r\nset\r\n", then key and
// value as "$LENGTH\r\nBYTES\r\n"; or "*2\r\n$3\r\ndel\r\n" and a key. buntdb
// itself trusts what it reads: a damaged length makes it ask for as much
// memory, an empty command makes it panic, and zero bytes make it write at the
// wrong place. So the file is read here first, strictly, and what does not
// belong is taken off.
//
// Only what lies before a damage is kept. The store is then as it was at an
// earlier moment, its cursor included, so the node asks the origin for every
// change since; skipping a damaged command instead could bring back a record
// that a later, lost one had replaced.

// maxPart is the most bytes a key or a value may have.
const maxPart = 64 << 20

// errDamaged says that a file holds what this program never wrote.
var errDamaged = errors.New("damaged")

// mended tells what mend did.
type mended struct {
	kept, lost int64  // bytes
	aside      string // where the damaged file is; "" when it was whole or just cut short
}

// mend makes the file at path one that buntdb can load. A command that the
// crash of a writer cut short is taken off the end. Any other damage: the file
// is set aside under another name and its good beginning takes its place.
func mend(path string, now time.Time) (mended, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return mended{}, nil
	}
	if err != nil {
		return mended{}, fmt.Errorf("mend local file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return mended{}, fmt.Errorf("mend local file: %w", err)
	}
	good, err := goodUntil(f, info.Size())
	m := mended{kept: good, lost: info.Size() - good}
	if m.lost > 0 && (err == nil || errors.Is(err, errDamaged)) {
		err = judgeTail(f, good, m.lost, err)
	}
	switch {
	case err == nil && m.lost == 0:
		return m, nil
	case err == nil:
		if err := f.Truncate(good); err != nil {
			return m, fmt.Errorf("mend local file: %w", err)
		}
		return m, nil
	case !errors.Is(err, errDamaged):
		return m, fmt.Errorf("mend local file: %w", err)
	}
	m.aside = asideName(path, now)
	if err := setAside(f, path, m.aside, good); err != nil {
		return m, fmt.Errorf("mend local file: %w", err)
	}
	return m, nil
}

func asideName(path string, now time.Time) string {
	return path + ".damaged-" + now.UTC().Format("20060102T150405.000000")
}

// setAside gives the damaged file the name aside, and path to a copy of its
// first good bytes. At every moment one of the two is at path, or none is.
func setAside(f *os.File, path, aside string, good int64) error {
	fresh, err := os.OpenFile(path+".mend", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(fresh, io.NewSectionReader(f, 0, good))
	err = errors.Join(err, fresh.Sync(), fresh.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	return os.Rename(path+".mend", path)
}

// judgeTail returns nil when the lost bytes at the end are the beginning of a
// command that was being written, or blocks that the file system gave the file
// without their ever being written; else errDamaged.
func judgeTail(f *os.File, at, size int64, found error) error {
	if size > 2*maxPart {
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

// goodUntil returns how many of the first bytes are whole commands with sealed
// values. The error is errDamaged when what follows can be no command's
// beginning.
func goodUntil(r io.Reader, size int64) (int64, error) {
	s := newScanner(r, size)
	for {
		good := s.at
		err := s.command()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return good, nil
		default:
			return good, err
		}
	}
}

// scanner reads commands and counts the bytes.
type scanner struct {
	r    *bufio.Reader
	at   int64
	size int64
	part []byte
	key  []byte
}

func newScanner(r io.Reader, size int64) *scanner {
	return &scanner{r: bufio.NewReaderSize(r, int(min(size, 1<<20))), size: size}
}

func (s *scanner) command() error {
	parts, err := s.number('*')
	if err != nil {
		return err
	}
	if parts != 2 && parts != 3 {
		return errDamaged
	}
	if err := s.bulk(); err != nil {
		return err
	}
	if string(s.part) != map[int64]string{2: "del", 3: "set"}[parts] {
		return errDamaged
	}
	if err := s.bulk(); err != nil { // the key
		return err
	}
	if parts == 2 {
		return nil
	}
	s.key = append(s.key[:0], s.part...)
	if err := s.bulk(); err != nil {
		return err
	}
	if !sealed(s.key, s.part) {
		return errDamaged
	}
	return nil
}

// bulk reads "$LENGTH\r\nBYTES\r\n" into part.
func (s *scanner) bulk() error {
	n, err := s.number('$')
	if err != nil {
		return err
	}
	if n > maxPart {
		return errDamaged
	}
	if s.at+n+2 > s.size {
		return io.ErrUnexpectedEOF
	}
	if int64(cap(s.part)) < n+2 {
		s.part = make([]byte, n+2)
	}
	s.part = s.part[:n+2]
	if _, err := io.ReadFull(s.r, s.part); err != nil {
		return err
	}
	s.at += n + 2
	if s.part[n] != '\r' || s.part[n+1] != '\n' {
		return errDamaged
	}
	s.part = s.part[:n]
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
