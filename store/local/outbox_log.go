package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"partneredge/store/durable"
)

// An outbox's file is a row of records, each written once and never changed:
//
//	offset size
//	0      4    "lead"
//	4      4    CRC-32C of all that follows
//	8      4    bytes of body, n
//	12     1    kind: recordLead or recordGone
//	13     1    bytes of id, m
//	14     m    id
//	14+m   n    body; of a gone record none
//
// Integers are little endian. A record of id "a" with body "{}" has 17 bytes.
// Zeros may follow the last one: room that is laid out for those to come, since a
// sync that finds the file as long as before takes little more than half the time.
const (
	recordHead = 14
	recordLead = 1 // the body is to be handed over
	recordGone = 2 // that of this id has been

	maxID   = 255
	maxBody = 1 << 20

	layOut = 256 << 10 // how much room is laid out at a time
)

var recordMark = []byte("lead")

func appendRecord(b []byte, kind byte, id string, body []byte) []byte {
	start := len(b)
	b = append(b, recordMark...)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, kind, byte(len(id)))
	b = append(b, id...)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[start+4:], castagnoli(b[start+8:]))
	return b
}

// parseRecord reads the record at the start of b. ok is false where there is
// none, and short then tells that b may be the beginning of one.
func parseRecord(b []byte) (kind byte, id string, body []byte, size int, ok, short bool) {
	if n := min(len(b), len(recordMark)); !bytes.Equal(b[:n], recordMark[:n]) {
		return 0, "", nil, 0, false, false
	}
	if len(b) < recordHead {
		return 0, "", nil, 0, false, true
	}
	n, m := int(binary.LittleEndian.Uint32(b[8:])), int(b[13])
	if n > maxBody {
		return 0, "", nil, 0, false, false
	}
	size = recordHead + m + n
	if len(b) < size {
		return 0, "", nil, 0, false, true
	}
	if binary.LittleEndian.Uint32(b[4:]) != castagnoli(b[8:size]) {
		return 0, "", nil, 0, false, false
	}
	return b[12], string(b[recordHead : recordHead+m]), b[recordHead+m : size], size, true, false
}

// replay calls fn for each whole record in b, in order, and goes on behind
// whatever is none. good is where the row of records that has no gap ends;
// damaged tells that what follows it is not just a record cut short.
func replay(b []byte, fn func(at int, kind byte, id string, size int)) (good int, damaged bool) {
	whole := true
	for at := 0; at < len(b); {
		kind, id, _, size, ok, short := parseRecord(b[at:])
		if ok {
			fn(at, kind, id, size)
			at += size
			if whole {
				good = at
			} else {
				damaged = true // a record behind a gap
			}
			continue
		}
		if whole {
			whole = false
			damaged = !short && !torn(b[at:])
		}
		next := bytes.Index(b[at+1:], recordMark)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return good, damaged
}

// torn tells whether b begins with a record of which only the first bytes, maybe
// none, were written to room that was laid out.
func torn(b []byte) bool {
	written := bytes.TrimRight(b, "\x00")
	if n := min(len(written), len(recordMark)); !bytes.Equal(written[:n], recordMark[:n]) {
		return false
	}
	size := recordHead
	if len(b) >= recordHead {
		size += int(b[13]) + int(min(binary.LittleEndian.Uint32(b[8:]), maxBody))
	}
	return len(written) < size
}

// outboxFile is the file of an outbox with where it ends. Only its owner writes.
type outboxFile struct {
	path   string
	f      *os.File
	room   int64  // how many bytes the file may have
	end    int64  // bytes of records that are written and synced
	laid   int64  // bytes of the file: behind end there are zeros
	blank  []byte // zeros, layOut of them
	broken bool   // a sync failed: nothing more may be added to this file
}

// openLog opens or makes the file, reads it through, and cuts off what a crash
// left half written. A damaged file is set aside, and all its whole records go
// into a new one.
func openLog(path string, room int64, now time.Time, each func(at int64, kind byte, id string, size int)) (l *outboxFile, m repaired, err error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, m, fmt.Errorf("open outbox: %w", err)
	}
	good, damaged := replay(data, func(int, byte, string, int) {})
	whole := data[:good]
	if damaged {
		whole = nil
		replay(data, func(at int, _ byte, _ string, size int) {
			whole = append(whole, data[at:at+size]...)
		})
		m.aside = asideName(path, now)
		if err := durable.CreateFile(m.aside, data, 0o600); err != nil {
			return nil, m, fmt.Errorf("set outbox aside: %w", err)
		}
		if err := durable.WriteFile(path, whole, 0o600); err != nil {
			return nil, m, fmt.Errorf("mend outbox: %w", err)
		}
	}
	m.kept, m.lost = int64(len(whole)), int64(len(data)-len(whole))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, m, fmt.Errorf("open outbox: %w", err)
	}
	l = &outboxFile{path: path, f: f, room: room, end: m.kept, laid: m.kept, blank: make([]byte, layOut)}
	err = errors.Join(f.Truncate(l.end), f.Sync(), durable.SyncDir(filepath.Dir(path)))
	if err != nil {
		_ = f.Close()
		return nil, m, fmt.Errorf("open outbox: %w", err)
	}
	replay(whole, func(at int, kind byte, id string, size int) { each(int64(at), kind, id, size) })
	return l, m, nil
}

// add writes b at the end and, where sync is set, syncs the file. After an error
// nothing of b counts.
func (l *outboxFile) add(b []byte, sync bool) error {
	if l.broken {
		return errors.New("a sync failed before")
	}
	err := l.write(b)
	if err == nil && sync {
		if err = durable.SyncData(l.f); err != nil {
			// What the system holds in memory and what is on disk may differ
			// from here on, and a second sync would not tell.
			l.broken = true
		}
	}
	if err != nil {
		l.cut() // should this fail: the next record goes over it, or a restart cuts it off
		return err
	}
	l.end += int64(len(b))
	return nil
}

// write writes b at the end; where the file has no room for it, it lays out more.
func (l *outboxFile) write(b []byte) error {
	_, err := l.f.WriteAt(b, l.end)
	after := l.end + int64(len(b))
	if err != nil || after <= l.laid {
		return err
	}
	l.laid = after
	if n, err := l.f.WriteAt(l.blank[:max(0, min(layOut, l.room-after))], after); err == nil {
		l.laid += int64(n)
	} else {
		_ = l.f.Truncate(after) // the disk has room for b and no more
	}
	return nil
}

// cut takes off what is behind the end.
func (l *outboxFile) cut() {
	if l.f.Truncate(l.end) == nil {
		l.laid = l.end
	}
}

func (l *outboxFile) close() error {
	l.cut()
	return l.f.Close()
}

// clear empties the file, which needs no room on the disk.
func (l *outboxFile) clear() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	l.end, l.laid = 0, 0
	if err := durable.SyncData(l.f); err != nil {
		l.broken = true
		return err
	}
	l.broken = false
	return nil
}

// replace puts a new file in the old one's place, with the size bytes that
// write writes.
func (l *outboxFile) replace(size int64, write func(io.Writer) error) error {
	if err := durable.Write(l.path, 0o600, write); err != nil {
		l.broken = l.broken || !durable.IsAt(l.f, l.path) // what is added to this one would be lost
		return err
	}
	f, err := os.OpenFile(l.path, os.O_RDWR, 0)
	if err != nil {
		l.broken = true
		return err
	}
	_ = l.f.Close()
	l.f, l.end, l.laid, l.broken = f, size, size, false
	return nil
}
