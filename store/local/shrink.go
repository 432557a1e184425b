package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"partneredge/store/durable"
)

const (
	// shrinkFrom is the size in bytes below which shrinking is not worth it, but
	// for tests.
	shrinkFrom = 32 << 20
	// A base is written so many keys, or bytes, at a time, and synced after so
	// many bytes: what piles up in the system's memory would be written out in
	// one go, and everybody's writes would wait for it.
	chunkKeys  = holdUp
	chunkBytes = 256 << 10
	syncBytes  = 4 << 20
)

// shrink makes the file small, once half of it, at least, is not in use any
// more. It is upkeep's, and requests go on meanwhile:
//
//  1. Changes go to a new log from here on. This is all that writers wait for,
//     and it is two assignments.
//  2. A base of all that is in the tree is written, a little at a time. It has
//     some changes of the new log besides, which do no harm: they are made again
//     when that is read.
//  3. It takes the old base's place, which makes the old logs' end.
func (f *file) shrink() error {
	f.write.Lock()
	size := f.size
	f.write.Unlock()
	if logs := f.logs + size; f.base+logs < f.worth || logs < f.base {
		return nil
	}
	if f.logs == 0 || f.logs < f.base { // else one that failed has begun a log
		if err := f.turn(); err != nil {
			return fmt.Errorf("begin a log: %w", err)
		}
	}
	covered := f.part - 1 // nobody else moves it on
	if err := f.rebase(covered); err != nil {
		return fmt.Errorf("rewrite local file: %w", err)
	}
	parts, err := logsOf(f.path)
	for _, part := range parts {
		if part <= covered {
			err = errors.Join(err, os.Remove(f.logPath(part)))
		}
	}
	f.logs = 0
	return err
}

// turn begins the next log.
func (f *file) turn() error {
	next, err := os.OpenFile(f.logPath(f.part+1), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.write.Lock()
	old, size := f.log, f.size
	head := appendHead(nil, size)
	if _, err = next.WriteAt(head, 0); err == nil {
		f.log, f.size, f.part = next, int64(len(head)), f.part+1
	}
	f.write.Unlock()
	if err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	f.logs += size
	return errors.Join(old.Sync(), old.Close())
}

// rebase writes a new base.
func (f *file) rebase(covered int64) error {
	path := f.path + ".tmp"
	base, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	size, err := f.writeBase(base, covered)
	// What the base has of the log must not be on disk without the rest of it.
	err = errors.Join(err, base.Sync(), base.Close(), f.sync())
	if err == nil {
		err = os.Rename(path, f.path)
	}
	if err != nil {
		_ = os.Remove(path)
		return err
	}
	f.base = size
	return durable.SyncDir(filepath.Dir(f.path))
}

func (f *file) writeBase(base *os.File, covered int64) (size int64, err error) {
	buf := appendHead(nil, covered)
	unsynced, from, done := 0, "", false
	for !done {
		n := 0
		done = true
		err := f.each("", from, func(key, value string) bool {
			if n == chunkKeys || len(buf) >= chunkBytes {
				from, done = key, false
				return false
			}
			buf = appendCommand(buf, pair{key: key, value: value})
			n++
			return true
		})
		if err != nil {
			return 0, err
		}
		if _, err := base.Write(buf); err != nil {
			return 0, err
		}
		size += int64(len(buf))
		if unsynced += len(buf); unsynced >= syncBytes {
			unsynced = 0
			if err := durable.SyncData(base); err != nil {
				return 0, err
			}
		}
		buf = buf[:0]
	}
	return size, nil
}
