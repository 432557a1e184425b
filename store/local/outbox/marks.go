package outbox

import (
	"encoding/binary"
	"errors"
	"os"

	"partneredge/store/durable"
)

// marks is the file beside a segment that says which of its items are gone, 8
// bytes for each:
//
//	offset size
//	0      4    offset of the item's record in the segment
//	4      4    the record's checksum
//
// Integers are little endian. It is not synced: what is lost of it is handed over
// again. A mark that does not fit the record at its offset says nothing, so it
// does no harm when it is damaged, or is of a segment that was written anew.
type marks struct {
	disk durable.Disk
	path string
	f    durable.File // nil until it is needed
	size int64
	next []byte // marks to be written
}

const markSize = 8

func (m *marks) note(at, sum uint32) {
	m.next = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(m.next, at), sum)
}

// write writes what was noted. What cannot be written is kept for the next time.
func (m *marks) write() error {
	if len(m.next) == 0 {
		return nil
	}
	if err := m.open(os.O_CREATE); err != nil {
		return err
	}
	if _, err := m.f.WriteAt(m.next, m.size); err != nil {
		return err
	}
	m.size += int64(len(m.next))
	m.next = m.next[:0]
	return nil
}

func (m *marks) open(flag int) (err error) {
	if m.f == nil {
		m.f, err = m.disk.OpenFile(m.path, flag|os.O_RDWR, 0o600)
	}
	return err
}

// each calls fn for the marks of the file, if there is one. Those that the disk does not read
// say nothing, so that their items are handed over again.
func (m *marks) each(fn func(at, sum uint32) error) error {
	if err := m.open(0); errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	info, err := m.f.Stat()
	if err != nil {
		return err
	}
	w := window{f: &patched{f: m.f, size: info.Size()}}
	for {
		b, err := w.read(m.size, markSize)
		if err != nil || len(b) < markSize {
			return err
		}
		if err := fn(binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])); err != nil {
			return err
		}
		m.size += markSize
	}
}

// remove removes the file. That may not be on disk yet. After an error the marks are
// as they were.
func (m *marks) remove() error {
	if err := m.disk.Remove(m.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	m.closeFile()
	m.size, m.next = 0, nil
	return nil
}

// closeFile closes the file and changes nothing of it.
func (m *marks) closeFile() {
	if m.f != nil {
		_ = m.f.Close()
		m.f = nil
	}
}

func (m *marks) close() error {
	err := m.write()
	if m.f != nil {
		err = errors.Join(err, m.f.Close())
		m.f = nil
	}
	return err
}
