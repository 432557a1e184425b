package local

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/buntdb"
)

// headName is the key of the first command of a part, which is about the part
// and not kept in the tree. Its value is one i64: in a base, the number of the
// last log whose changes it has; in a log, how many bytes the log before had
// when this one was begun.
const headName = "\x00head"

func appendHead(b []byte, n int64) []byte {
	return appendCommand(b, pair{key: headName, value: seal(headName, putInt(newValue(8), n))})
}

// appendCommand adds what buntdb itself would write of a change.
func appendCommand(b []byte, p pair) []byte {
	if p.gone {
		return appendBulk(append(b, "*2\r\n$3\r\ndel\r\n"...), p.key)
	}
	return appendBulk(appendBulk(append(b, "*3\r\n$3\r\nset\r\n"...), p.key), p.value)
}

func appendBulk(b []byte, s string) []byte {
	b = append(strconv.AppendInt(append(b, '$'), int64(len(s)), 10), "\r\n"...)
	return append(append(b, s...), "\r\n"...)
}

func (f *file) logPath(part int64) string { return f.path + "-" + strconv.FormatInt(part, 10) }

// logsOf are the numbers of the logs there are, in order.
func logsOf(path string) (parts []int64, err error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("list local files: %w", err)
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+"-")
		if part, err := strconv.ParseInt(number, 10, 64); ok && err == nil && part > 0 {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return parts, nil
}

// openFile opens or makes the file at path, mended. Each damage is one line in
// log.
func openFile(path string, log *slog.Logger, now time.Time) (_ *file, err error) {
	f := &file{path: path, worth: shrinkFrom}
	if f.db, err = buntdb.Open(":memory:"); err != nil {
		return nil, fmt.Errorf("open local file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.db.Close()
		}
	}()
	_ = os.Remove(path + ".tmp") // of a shrink that was cut short
	base, err := f.read(path, log, now)
	if err != nil {
		return nil, err
	}
	covered, err := f.takeHead()
	if err != nil {
		return nil, err
	}
	f.base, f.part = base.kept, covered
	if err := f.readLogs(covered, base.lost > 0, log, now); err != nil {
		return nil, err
	}
	if f.part == covered {
		f.part++
	}
	f.log, err = os.OpenFile(f.logPath(f.part), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil && f.size == 0 {
		err = f.append(appendHead(nil, 0))
	}
	if err != nil {
		return nil, fmt.Errorf("open local file: %w", err)
	}
	return f, nil
}

// readLogs reads what came after the base, which has the logs up to covered. A
// log whose predecessor has lost its end leads to no state that ever was: it is
// set aside.
func (f *file) readLogs(covered int64, gap bool, log *slog.Logger, now time.Time) error {
	parts, err := logsOf(f.path)
	if err != nil {
		return err
	}
	for _, part := range parts {
		path := f.logPath(part)
		if part <= covered {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove old log: %w", err)
			}
			continue
		}
		since, begun, err := headOf(path)
		if err != nil {
			return err
		}
		gap = gap || part != f.part+1 || begun && part > covered+1 && since != f.size
		if gap {
			aside := asideName(path, now)
			if err := os.Rename(path, aside); err != nil {
				return fmt.Errorf("set local file aside: %w", err)
			}
			f.mended = true
			log.Error("local file set aside: what came before it is damaged", "file", path, "aside", aside)
			continue
		}
		m, err := f.read(path, log, now)
		if err != nil {
			return err
		}
		if _, err := f.takeHead(); err != nil {
			return err
		}
		if m.kept == 0 && part > covered+1 { // never begun: the one before is the last
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("remove empty log: %w", err)
			}
			gap = true
			continue
		}
		f.logs += f.size
		f.part, f.size = part, m.kept
		gap = m.aside != ""
	}
	return nil
}

// read mends one part and reads it into the tree.
func (f *file) read(path string, log *slog.Logger, now time.Time) (mended, error) {
	m, err := mend(path, now)
	if err != nil {
		return m, err
	}
	if m.aside != "" {
		f.mended = true
		log.Error("local file damaged: set aside, going on with what is whole",
			"file", path, "aside", m.aside, "kept_bytes", m.kept, "lost_bytes", m.lost)
	}
	if m.kept == 0 {
		return m, nil
	}
	part, err := os.Open(path)
	if err != nil {
		return m, fmt.Errorf("read local file: %w", err)
	}
	defer part.Close()
	if err := f.db.Load(part); err != nil {
		return m, fmt.Errorf("read local file %s: %w", path, err)
	}
	return m, nil
}

// takeHead takes the head of the part that was read last out of the tree; 0
// when it had none.
func (f *file) takeHead() (n int64, err error) {
	err = f.db.Update(func(tx *buntdb.Tx) error {
		value, err := tx.Delete(headName)
		if errors.Is(err, buntdb.ErrNotFound) {
			return nil
		}
		fields := openValue(value)
		n = fields.int()
		return err
	})
	return n, err
}

// headOf reads the head of a log that has not been read yet; begun is false
// when there is none.
func headOf(path string) (n int64, begun bool, err error) {
	r, err := os.Open(path)
	if err != nil {
		return 0, false, fmt.Errorf("read local file: %w", err)
	}
	defer r.Close()
	const most = 1 << 10 // bytes of a head, and more
	s := newScanner(r, most)
	if s.command() != nil || string(s.key) != headName {
		return 0, false, nil
	}
	fields := openValue(string(s.part))
	n = fields.int()
	return n, !fields.bad, nil
}
