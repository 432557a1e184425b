package local

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"partneredge/store/durable"
	"partneredge/store/local/outbox"
)

const (
	// shrinkFrom is the size in bytes from which on a log is worth shrinking.
	shrinkFrom = 32 << 20
	// A log is written anew at least every anewEvery seconds, and firstAnew seconds after a
	// start, which does not know when it was last: what was removed or replaced, such as the
	// views of a deleted account, is in it until then.
	anewEvery = 24 * 60 * 60
	firstAnew = 60 * 60
	// shrinking ends the name of the file that a shrink writes.
	shrinking = ".tmp"
	// The tree is read so many keys, or bytes, at a time, and the new file is
	// synced after so many bytes: what piles up in the system's memory would be
	// written out at once, and everybody's writes would wait for it.
	chunkKeys  = 64
	chunkBytes = 256 << 10
	syncBytes  = 4 << 20
	// catchUp bounds the bytes that are copied while writers wait.
	catchUp = 64 << 10
)

var (
	// errBehind is the error of a shrink during which the disk took no changes.
	errBehind = errors.New("the disk took no changes meanwhile")
	// errNoRoom is the error of a shrink that would leave too little of the disk.
	errNoRoom = errors.New("too little room on the disk")
)

// shrink rewrites the log once half of it, at least, is not in use any more, a sync of it
// failed, or it has not been written anew for long. One that lacks changes since the disk is full waits
// until it has them.
// Only upkeep calls it, and requests go on meanwhile: writers wait while a few
// kilobytes are copied, and readers do not wait at all.
func (f *file) shrink() error {
	f.mu.Lock()
	old := f.logs[0]
	size := old.size
	due := f.behind == nil && (old.unsure || f.anew <= 0 && size != f.exact || size >= f.shrinkFrom && size >= 2*f.live)
	f.mu.Unlock()
	if !due {
		return nil
	}
	next, err := f.rewrite(old, size)
	if err == nil {
		err = f.disk.Rename(next.Name(), f.path)
	}
	if err = errors.Join(err, f.keepOne(old, next, err)); err != nil {
		return fmt.Errorf("shrink local file: %w", err)
	}
	f.anew, f.exact = anewEvery, 0
	if next.copied == 0 {
		f.exact = f.live
	}
	return nil
}

// rewrite writes the tree to a new file, and then what was appended to the log
// from the offset on. Changes that the tree had already are made again by that,
// which does no harm. When it returns, changes go to both files. It fails when the log lacks
// changes by then: of those, the new file has some and not others.
func (f *file) rewrite(log *logFile, from int64) (next *logFile, err error) {
	if err := f.hasRoom(f.live); err != nil {
		return nil, err
	}
	own, err := f.disk.OpenFile(f.path+shrinking, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	next = &logFile{File: own}
	if err := f.writeTree(next); err != nil {
		return next, err
	}
	for synced := false; ; {
		f.mu.Lock()
		missing := log.size - from
		if synced && missing <= catchUp {
			err := next.copy(log, from, missing)
			if err == nil && f.syncEach {
				err = next.SyncData()
			}
			if f.behind != nil {
				err = cmp.Or(err, errBehind)
			}
			if err == nil {
				f.live = next.size
				f.logs = append(f.logs, next)
			}
			f.mu.Unlock()
			return next, err
		}
		f.mu.Unlock()
		if err := next.copy(log, from, missing); err != nil {
			return next, err
		}
		from += missing
		if synced {
			continue
		}
		// A crash may cut off any part of the file that is not on disk. It must
		// not cut off changes that the tree had already, for some keys.
		if err := own.SyncData(); err != nil {
			return next, err
		}
		synced = true
	}
}

// hasRoom fails when size bytes more would leave less of the disk than half of what the
// outbox leaves. The other half is for changes, which go on meanwhile. What cannot be
// asked for sets no bound.
func (f *file) hasRoom(size int64) error {
	free, total, err := f.free(filepath.Dir(f.path))
	if want := size + outbox.Reserve(total)/2; err == nil && free < want {
		return fmt.Errorf("%w: %d bytes are free, and %d wanted", errNoRoom, free, want)
	}
	return nil
}

func (l *logFile) copy(from *logFile, at, size int64) error {
	_, err := io.Copy(io.NewOffsetWriter(l, l.size), io.NewSectionReader(from, at, size))
	if err == nil {
		l.size += size
		l.copied += size
	}
	return err
}

// keepOne ends the writing to both logs: it keeps the one that is at path, and closes the
// other. next is nil when there is none; failed is the error of the shrink until then.
func (f *file) keepOne(old, next *logFile, failed error) error {
	if next == nil {
		return nil
	}
	kept, other := next, old
	if !durable.IsAt(next.File, f.path) {
		kept, other = old, next
		_ = f.disk.Remove(next.Name())
	}
	f.mu.Lock()
	f.logs = []*logFile{kept}
	switch {
	case kept == old:
		old.unsure = old.unsure || f.syncEach // the log may lack what only the other got
	case failed != nil: // the sync of the directory
		next.unsure, next.unnamed = true, true
	}
	f.mu.Unlock()
	return other.Close()
}

// writeTree writes all keys and values there are, a few at a time.
func (f *file) writeTree(to *logFile) error {
	var buf []byte
	var unsynced int64
	from, done := "", false
	for !done {
		n := 0
		done = true
		err := f.each("", from, func(key, value string) bool {
			if n == chunkKeys || len(buf) >= chunkBytes {
				from, done = key, false
				return false
			}
			buf = appendCommand(buf, edit{key: key, value: value})
			n++
			return true
		})
		if err != nil {
			return err
		}
		if _, err := to.WriteAt(buf, to.size); err != nil {
			return err
		}
		to.size += int64(len(buf))
		if unsynced += int64(len(buf)); unsynced >= syncBytes {
			unsynced = 0
			if err := to.SyncData(); err != nil {
				return err
			}
			if err := f.hasRoom(syncBytes); err != nil { // more may be in use than was when f.live was noted
				return err
			}
		}
		buf = buf[:0]
	}
	return nil
}
