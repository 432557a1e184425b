package outbox

import (
	"bytes"
	"errors"
	"io"
)

// windowBytes is about how many bytes of a file are read at a time, and firstWindow how
// many at first: each time twice as many as before, since most files are short.
const (
	windowBytes = 256 << 10
	firstWindow = 4 << 10
)

// largest is the most bytes that a record may have.
const largest = recordHead + maxID + maxBody

// window reads a file through a buffer. What it returns is valid until the next
// call, and may be what the file held at an earlier one: see reset.
type window struct {
	f     io.ReaderAt
	buf   []byte
	at    int64 // offset of buf in the file
	exact bool  // no more is read than is asked for
}

// reset drops what the window has read. From now on it reads f.
func (w *window) reset(f io.ReaderAt) { w.f, w.buf = f, w.buf[:0] }

// end returns the offset behind what the window has read. After an error of the disk, that is
// where the first byte lies that was not read.
func (w *window) end() int64 { return w.at + int64(len(w.buf)) }

// read returns the n bytes at an offset, or fewer where the file ends.
func (w *window) read(at int64, n int) ([]byte, error) {
	if from := at - w.at; from >= 0 && from+int64(n) <= int64(len(w.buf)) {
		return w.buf[from:][:n], nil
	}
	size := n
	if !w.exact {
		size = max(n, min(max(firstWindow, 2*cap(w.buf)), windowBytes))
	}
	if cap(w.buf) < size {
		w.buf = make([]byte, size)
	}
	got, err := w.f.ReadAt(w.buf[:size], at)
	w.buf, w.at = w.buf[:got], at
	if unread(err) && got < n { // what lies behind does not matter now
		return nil, err
	}
	return w.buf[:min(n, got)], nil
}

// unread reports whether a read failed, other than at the end of the file.
func unread(err error) bool { return err != nil && !errors.Is(err, io.EOF) }

// record reads the record at an offset.
func (w *window) record(at int64) (record, parsed, error) {
	b, err := w.read(at, recordHead)
	if err == nil && len(b) == recordHead && bytes.Equal(b[:len(recordMark)], recordMark) {
		if size, ok := recordSize(b); ok {
			b, err = w.read(at, size)
		}
	}
	if err != nil {
		return record{}, notARecord, err
	}
	rec, found := parseRecord(b)
	return rec, found, nil
}

// records calls fn for each whole record before size, in order, and skips what is
// none. good is the length of the whole records up to the first gap. damaged
// reports that more than one record cut short follows them.
func (w *window) records(size int64, fn func(at int64, rec record) error) (good int64, damaged bool, err error) {
	gap := false
	for at := int64(0); at < size; {
		rec, found, err := w.record(at)
		if err != nil {
			return good, damaged, err
		}
		if found == whole {
			if err := fn(at, rec); err != nil {
				return good, damaged, err
			}
			at += int64(rec.size)
			if gap {
				damaged = true
			} else {
				good = at
			}
			continue
		}
		if !gap {
			gap = true
			torn, err := w.torn(at)
			if err != nil {
				return good, damaged, err
			}
			damaged = found == notARecord && !torn
		}
		if at, err = w.next(at + 1); err != nil || at < 0 {
			return good, damaged, err
		}
	}
	return good, damaged, nil
}

// next returns where the next record may begin, -1 if none does.
func (w *window) next(at int64) (int64, error) {
	for {
		var b []byte
		if from := at - w.at; from >= 0 && from+int64(len(recordMark)) <= int64(len(w.buf)) {
			b = w.buf[from:]
		} else {
			var err error
			if b, err = w.read(at, windowBytes); err != nil {
				return 0, err
			}
		}
		if i := bytes.Index(b, recordMark); i >= 0 {
			return at + int64(i), nil
		}
		if len(b) < len(recordMark) {
			return -1, nil
		}
		at += int64(len(b) - len(recordMark) + 1)
	}
}

// torn reports whether at an offset there is a record of which only the first
// bytes, maybe none, were written before the zeros that follow.
func (w *window) torn(at int64) (bool, error) {
	b, err := w.read(at, largest)
	if err != nil {
		return false, err
	}
	written := bytes.TrimRight(b, "\x00")
	if n := min(len(written), len(recordMark)); !bytes.Equal(written[:n], recordMark[:n]) {
		return false, nil
	}
	size := recordHead
	if len(b) >= recordHead {
		size = largest
		if n, ok := recordSize(b); ok {
			size = n
		}
	}
	if len(written) >= size {
		return false, nil
	}
	for at += int64(len(b)); len(b) > 0; at += int64(len(b)) { // nothing but zeros may follow
		if b, err = w.read(at, windowBytes); err != nil || len(bytes.Trim(b, "\x00")) > 0 {
			return false, err
		}
	}
	return true, nil
}
