package outbox

import (
	"errors"
	"io"
	"os"

	"partneredge/store/durable"
)

// As many zeros are written behind the records at a time as there are bytes of records,
// but at least preallocate and at most preallocateMost. A sync that finds the file as long
// as before takes little more than half the time.
const (
	preallocate     = 256 << 10
	preallocateMost = 1 << 20
)

// file is the file of a segment. Only the outbox's writer changes it.
type file struct {
	disk    durable.Disk
	path    string
	f       durable.File
	maxSize int64  // bytes up to which zeros are written
	end     int64  // bytes of records that are written and synced
	size    int64  // bytes of the file; those behind end are zeros
	zeros   []byte // preallocate of them
	broken  bool   // a sync failed: nothing more may be added to this file
}

// add writes b at the end and syncs the file. After an error nothing of b counts.
func (o *file) add(b []byte) error {
	if o.broken {
		return errors.New("a sync failed before")
	}
	err := o.write(b)
	if err == nil {
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
	for ahead := min(after+min(max(o.end, preallocate), preallocateMost), o.maxSize); o.size < ahead; {
		n, err := o.f.WriteAt(o.zeros[:min(int64(len(o.zeros)), ahead-o.size)], o.size)
		if err != nil {
			_ = o.f.Truncate(after) // the disk has space for b and no more
			o.size = after
			break
		}
		o.size += int64(n)
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

// rewrite puts a file with what write writes at the path, and opens it. The file
// is used from then on when it is given to adopt.
func (o *file) rewrite(write func(io.Writer) error) (durable.File, error) {
	if err := o.disk.Write(o.path, 0o600, write); err != nil {
		o.broken = o.broken || !durable.IsAt(o.f, o.path) // what is added to this one would be lost
		return nil, err
	}
	f, err := o.disk.OpenFile(o.path, os.O_RDWR, 0)
	if err != nil {
		o.broken = true
	}
	return f, err
}

// adopt goes on with f, which has size bytes of records.
func (o *file) adopt(f durable.File, size int64) {
	_ = o.f.Close()
	o.f, o.end, o.size, o.broken = f, size, size, false
}
