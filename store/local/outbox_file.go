package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"partneredge/store/durable"
)

// preallocate is how many zeros are written behind the records at a time. A sync
// that finds the file as long as before takes little more than half the time.
const preallocate = 256 << 10

// outboxFile is the file of an outbox. Only the outbox's writer changes it.
type outboxFile struct {
	disk    durable.Disk
	path    string
	f       durable.File
	maxSize int64  // bytes the file may have
	end     int64  // bytes of records that are written and synced
	size    int64  // bytes of the file; those behind end are zeros
	zeros   []byte // preallocate of them
	broken  bool   // a sync failed: nothing more may be added to this file
}

// openOutboxFile opens or makes the file, calls each for its records, and cuts
// off what a crash left half written. A damaged file is set aside, and all its
// whole records go into a new one.
func openOutboxFile(c outboxConfig, each func(at int, rec record)) (o *outboxFile, r repaired, err error) {
	path := c.path
	_ = c.disk.Remove(path + ".new") // of an earlier build that was killed
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, r, fmt.Errorf("open outbox: %w", err)
	}
	good, damaged := replay(data, func(int, record) {})
	kept := data[:good]
	if damaged {
		kept = nil
		replay(data, func(at int, rec record) { kept = append(kept, data[at:at+rec.size]...) })
		r.aside = asideName(path, c.now())
		if err := c.disk.CreateFile(r.aside, data, 0o600); err != nil {
			return nil, r, fmt.Errorf("set outbox aside: %w", err)
		}
		if err := c.disk.WriteFile(path, kept, 0o600); err != nil {
			return nil, r, fmt.Errorf("repair outbox: %w", err)
		}
	}
	r.kept, r.lost = int64(len(kept)), int64(len(data)-len(kept))
	f, err := c.disk.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, r, fmt.Errorf("open outbox: %w", err)
	}
	err = errors.Join(f.Truncate(r.kept), f.Sync(), c.disk.SyncDir(filepath.Dir(path)))
	if err != nil {
		_ = f.Close()
		return nil, r, fmt.Errorf("open outbox: %w", err)
	}
	replay(kept, each)
	return &outboxFile{disk: c.disk, path: path, f: f, maxSize: c.maxSize, end: r.kept, size: r.kept, zeros: make([]byte, preallocate)}, r, nil
}

// add writes b at the end and, where sync is set, syncs the file. After an error
// nothing of b counts.
func (o *outboxFile) add(b []byte, sync bool) error {
	if o.broken {
		return errors.New("a sync failed before")
	}
	err := o.write(b)
	if err == nil && sync {
		if err = o.f.SyncData(); err != nil {
			// What the system holds in memory and what is on disk may differ, and a
			// second sync would not report it.
			o.broken = true
		}
	}
	if err != nil {
		o.truncate() // should this fail: the next record goes over it, or a restart cuts it off
		return err
	}
	o.end += int64(len(b))
	return nil
}

// write writes b at the end and, where that makes the file longer, zeros behind.
func (o *outboxFile) write(b []byte) error {
	_, err := o.f.WriteAt(b, o.end)
	after := o.end + int64(len(b))
	if err != nil || after <= o.size {
		return err
	}
	o.size = after
	if n, err := o.f.WriteAt(o.zeros[:max(0, min(preallocate, o.maxSize-after))], after); err == nil {
		o.size += int64(n)
	} else {
		_ = o.f.Truncate(after) // the disk has space for b and no more
	}
	return nil
}

// truncate cuts off what is behind the end.
func (o *outboxFile) truncate() {
	if o.f.Truncate(o.end) == nil {
		o.size = o.end
	}
}

func (o *outboxFile) close() error {
	o.truncate()
	return o.f.Close()
}

// clear empties the file, which needs no space on the disk.
func (o *outboxFile) clear() error {
	if err := o.f.Truncate(0); err != nil {
		return err
	}
	o.end, o.size = 0, 0
	if err := o.f.SyncData(); err != nil {
		o.broken = true
		return err
	}
	return nil
}

// replace replaces the file by a new one with the size bytes that write writes.
func (o *outboxFile) replace(size int64, write func(io.Writer) error) error {
	if err := o.disk.Write(o.path, 0o600, write); err != nil {
		o.broken = o.broken || !durable.IsAt(o.f, o.path) // what is added to this one would be lost
		return err
	}
	f, err := o.disk.OpenFile(o.path, os.O_RDWR, 0)
	if err != nil {
		o.broken = true
		return err
	}
	_ = o.f.Close()
	o.f, o.end, o.size, o.broken = f, size, size, false
	return nil
}
