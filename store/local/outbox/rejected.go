package outbox

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"partneredge/store/durable"
)

// rejected is a line of the file of items that were set aside.
type rejected struct {
	ID     string          `json:"id"`
	At     time.Time       `json:"at"`
	Reason string          `json:"reason"`
	Body   json.RawMessage `json:"body"`
	Raw    []byte          `json:"raw,omitempty"` // a body that is no JSON; Body is then null
}

const (
	maxLine = 2 << 20 // bytes of a line of that file
	// maxAside bounds the files of items that were set aside. To one whose end the disk does not
	// read nothing can be added, so the next one takes what comes.
	maxAside = 4
)

// aside keeps what is known of the files of items that were set aside, by their paths.
type aside struct {
	bad    map[string]map[int64]struct{} // blocks that the disk does not read; see patched
	unread map[string]int64              // bytes of lines that cannot be read; Outbox.mu guards it
}

// asidePaths returns the paths that files of items that were set aside may have.
func (o *Outbox) asidePaths() (paths []string) {
	for n := range maxAside {
		paths = append(paths, segmentPath(o.cfg.RejectedPath, n))
	}
	return paths
}

// SetAside moves an item that cannot be handed over, with the reason, to a file of
// its own: one JSON object a line, {"id", "at", "reason", "body"}. Its errors are also Remove's.
func (o *Outbox) SetAside(ctx context.Context, it Item, reason string) error {
	entry := rejected{ID: it.ID, At: o.cfg.Now().UTC(), Reason: reason, Body: it.Body}
	if !json.Valid(it.Body) {
		entry.Body, entry.Raw = nil, it.Body
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("set item aside: %w", err)
	}
	var f durable.File
	for _, path := range o.asidePaths() {
		if f, err = o.addLine(path, line); !errors.Is(err, errEnd) {
			break
		}
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close(), o.cfg.Disk.SyncDir(filepath.Dir(o.cfg.RejectedPath)))
	}
	if err != nil {
		return fmt.Errorf("set item aside: %w", err)
	}
	return o.Remove(ctx, it.ID)
}

// errEnd is the error of a file whose end the disk does not read.
var errEnd = errors.New("its end cannot be read")

// addLine adds a line to a file, which it returns, to be synced.
func (o *Outbox) addLine(path string, line []byte) (durable.File, error) {
	f, err := o.cfg.Disk.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	line, err = ownLine(f, line)
	if err == nil {
		_, err = f.Write(line)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ownLine returns what to append to f so that line is one of its own there, though the one
// before may have been written in part.
func ownLine(f durable.File, line []byte) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var last [1]byte
	if size := info.Size(); size > 0 {
		if _, err = f.ReadAt(last[:], size-1); err != nil {
			return nil, fmt.Errorf("%w: %w", errEnd, err)
		}
		if last[0] != '\n' {
			line = slices.Insert(line, 0, '\n')
		}
	}
	return append(line, '\n'), nil
}

// Rejected returns the items that were set aside. A line that is none as SetAside writes it is
// an item under an id made of it. Lines that the disk does not read are left out, which is one
// line in the log and counts in Unread. Nothing may be set aside or removed meanwhile.
func (o *Outbox) Rejected() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, path := range o.asidePaths() {
			more, err := o.readAside(path, func(it Item) bool { return yield(it, nil) })
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				more = yield(Item{}, fmt.Errorf("read rejected items: %w", err))
			}
			if !more {
				return
			}
		}
	}
}

// readAside calls yield for the items of a file until it returns false, which more reports.
func (o *Outbox) readAside(path string, yield func(Item) bool) (more bool, err error) {
	f, err := o.cfg.Disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return true, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return true, err
	}
	// A block that was not read is tried again at the next start: a disk may take seconds for it.
	from := &patched{f: f, size: info.Size(), bad: maps.Clone(o.aside.bad[path])}
	lines, unread := bufio.NewReaderSize(io.NewSectionReader(from, 0, from.size), windowBytes), int64(0)
	for at := int64(0); at < from.size; {
		line, size, err := readLine(lines)
		if err != nil {
			return true, err
		}
		if size > maxLine || from.isBad(at, size) {
			unread += size
		} else if !yield(itemOf(line)) {
			return false, nil
		}
		at += size
	}
	if err := from.blind(); err != nil { // the disk may be away for a while
		return true, err
	}
	o.noteAside(path, from, unread)
	return true, nil
}

// readLine returns a line without its end, or only the first bytes of one that is longer than
// maxLine, and how many bytes it takes.
func readLine(from *bufio.Reader) (line []byte, size int64, err error) {
	for {
		part, err := from.ReadSlice('\n')
		size += int64(len(part))
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		switch {
		case err == nil, err == io.EOF && size > 0:
			return bytes.TrimSuffix(line, []byte("\n")), size, nil
		case err != bufio.ErrBufferFull:
			return nil, 0, err
		}
	}
}

// noteAside notes what cannot be read of a file of items that were set aside.
func (o *Outbox) noteAside(path string, from *patched, unread int64) {
	if o.aside.bad == nil {
		o.aside.bad = map[string]map[int64]struct{}{}
	}
	o.aside.bad[path] = from.bad
	o.mu.Lock()
	defer o.mu.Unlock()
	if unread != 0 && unread != o.aside.unread[path] {
		o.cfg.Log.Error("items that were set aside cannot be read, and are not offered: their file is left as it is",
			"file", path, "bytes", unread, "blocks", slices.Sorted(maps.Keys(from.bad)), "block_bytes", blockSize, "err", from.err)
	}
	if o.aside.unread == nil {
		o.aside.unread = map[string]int64{}
	}
	o.aside.unread[path] = unread
}

func itemOf(line []byte) Item {
	var entry rejected
	if err := json.Unmarshal(line, &entry); err != nil || entry.ID == "" {
		sum := sha256.Sum256(line)
		return Item{ID: "line_" + hex.EncodeToString(sum[:]), Body: bytes.Clone(line)}
	}
	if entry.Raw != nil {
		return Item{ID: entry.ID, Body: entry.Raw}
	}
	return Item{ID: entry.ID, Body: entry.Body}
}

// Aside returns the bytes of the files of items that were set aside.
func (o *Outbox) Aside() (n int64) {
	for _, path := range o.asidePaths() {
		if info, err := os.Stat(path); err == nil {
			n += info.Size()
		}
	}
	return n
}

// RemoveRejected removes the files of items that were set aside, but for those of which
// Rejected could not read everything.
func (o *Outbox) RemoveRejected() error {
	for _, path := range o.asidePaths() {
		if o.asideUnread(path) > 0 {
			continue
		}
		if err := o.cfg.Disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove rejected items: %w", err)
		}
		delete(o.aside.bad, path)
	}
	if err := o.cfg.Disk.SyncDir(filepath.Dir(o.cfg.RejectedPath)); err != nil {
		return fmt.Errorf("remove rejected items: %w", err)
	}
	return nil
}

// asideUnread returns how many bytes of a file of items that were set aside cannot be read.
func (o *Outbox) asideUnread(path string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.aside.unread[path]
}
