package outbox

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

// file is the file of an outbox. Only the outbox's writer changes it.
type file struct {
	disk    durable.Disk
	path    string
	f       durable.File
	maxSize int64  // bytes the file may have
	end     int64  // bytes of records that are written and synced
	size    int64  // bytes of the file; those behind end are zeros
	zeros   []byte // preallocate of them
	broken  bool   // a sync failed: nothing more may be added to this file
}

// openFile opens or makes the file, calls each for its records, and cuts off what
// a crash left half written. A damaged file is set aside, and all its whole records
// go into a new one, which is one line in the log.
func openFile(c Config, each func(at int, rec record)) (*file, error) {
	path := c.Path
	_ = c.Disk.Remove(path + ".new") // of an earlier build that was killed
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	good, damaged := replay(data, func(int, record) {})
	kept := data[:good]
	if damaged {
		kept = nil
		replay(data, func(at int, rec record) { kept = append(kept, data[at:at+rec.size]...) })
		aside := durable.DamagedName(path, c.Now())
		if err := c.Disk.CreateFile(aside, data, 0o600); err != nil {
			return nil, fmt.Errorf("set outbox aside: %w", err)
		}
		if err := c.Disk.WriteFile(path, kept, 0o600); err != nil {
			return nil, fmt.Errorf("repair outbox: %w", err)
		}
		c.Log.Error("outbox damaged: set aside, going on with what is whole",
			"file", path, "aside", aside, "kept_bytes", len(kept), "lost_bytes", len(data)-len(kept))
	}
	end := int64(len(kept))
	f, err := c.Disk.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	err = errors.Join(f.Truncate(end), f.Sync(), c.Disk.SyncDir(filepath.Dir(path)))
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	replay(kept, each)
	return &file{disk: c.Disk, path: path, f: f, maxSize: c.MaxBytes, end: end, size: end, zeros: make([]byte, preallocate)}, nil
}

// add writes b at the end and, where sync is set, syncs the file. After an error
// nothing of b counts.
func (o *file) add(b []byte, sync bool) error {
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
func (o *file) write(b []byte) error {
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
func (o *file) truncate() {
	if o.f.Truncate(o.end) == nil {
		o.size = o.end
	}
}

func (o *file) close() error {
	o.truncate()
	return o.f.Close()
}

// clear empties the file, which needs no space on the disk.
func (o *file) clear() error {
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
func (o *file) replace(size int64, write func(io.Writer) error) error {
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
