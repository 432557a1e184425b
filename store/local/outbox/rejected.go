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
	"sync"
	"syscall"
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

// RejectedItem is an item that was set aside.
type RejectedItem struct {
	Item
	Line Line
}

// Line is the SHA-256 of a line of the files of items that were set aside, by which
// RemoveRejected finds it wherever it is by then.
type Line [sha256.Size]byte

const (
	maxLine = 2 << 20 // bytes of a line of that file
	// maxAside bounds the files of items that were set aside. To one whose end the disk does not
	// read nothing can be added, so the next one takes what comes.
	maxAside = 4
)

// aside keeps what is known of the files of items that were set aside, by their paths.
type aside struct {
	adding sync.Mutex                    // held while lines are added or removed
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

// Refused is an item that cannot be handed over, and why.
type Refused struct {
	Item
	Reason string
}

// SetAside moves items that cannot be handed over to a file of their own, with one sync for
// all: one JSON object a line, {"id", "at", "reason", "body"}. After an error all of them still
// wait, but after one of Remove, whose errors it returns as well.
func (o *Outbox) SetAside(ctx context.Context, items ...Refused) error {
	var ids []string
	var lines []byte
	for _, it := range items {
		entry := rejected{ID: it.ID, At: o.cfg.Now().UTC(), Reason: it.Reason, Body: it.Body}
		if !json.Valid(it.Body) {
			entry.Body, entry.Raw = nil, it.Body
		}
		line, err := json.Marshal(entry)
		if err != nil {
			return fmt.Errorf("set items aside: %w", err)
		}
		ids, lines = append(ids, it.ID), append(append(lines, line...), '\n')
	}
	if err := o.keepLines(lines); err != nil {
		return fmt.Errorf("set items aside: %w", err)
	}
	return o.Remove(ctx, ids...)
}

// keepLines brings lines to disk, in the first file of items that were set aside that takes them.
func (o *Outbox) keepLines(lines []byte) (err error) {
	o.aside.adding.Lock()
	defer o.aside.adding.Unlock()
	for _, path := range o.asidePaths() {
		if err = o.addLines(path, lines); !errors.Is(err, errEnd) {
			break
		}
	}
	if err != nil {
		return err
	}
	return o.cfg.Disk.SyncDir(filepath.Dir(o.cfg.RejectedPath))
}

// errEnd is the error of a file whose end the disk does not read.
var errEnd = errors.New("its end cannot be read")

// addLines adds lines to a file and syncs it. If it fails, none of them is to stay, or each further
// try would add them again.
func (o *Outbox) addLines(path string, lines []byte) (err error) {
	f, err := o.cfg.Disk.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if lines, err = ownLines(f, info.Size(), lines); err != nil {
		return err
	}
	if _, err = f.Write(lines); err == nil {
		err = f.Sync()
	}
	if err != nil {
		err = errors.Join(err, f.Truncate(info.Size()))
	}
	return err
}

// ownLines returns what to append to f, of a size, so that the first line is one of its own
// there, though the one before may have been written in part.
func ownLines(f durable.File, size int64, lines []byte) ([]byte, error) {
	var last [1]byte
	if size > 0 {
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return nil, fmt.Errorf("%w: %w", errEnd, err)
		}
		if last[0] != '\n' {
			lines = slices.Insert(lines, 0, '\n')
		}
	}
	return lines, nil
}

// Rejected returns the items that were set aside. A line that is none as SetAside writes it is
// an item under an id made of it. Lines that the disk does not read are left out, which is one
// line in the log and counts in Unread. RemoveRejected may not be called meanwhile.
func (o *Outbox) Rejected() iter.Seq2[RejectedItem, error] {
	return func(yield func(RejectedItem, error) bool) {
		for _, path := range o.asidePaths() {
			more, err := o.readAside(path, func(it RejectedItem) bool { return yield(it, nil) })
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				more = yield(RejectedItem{}, fmt.Errorf("read rejected items: %w", err))
			}
			if !more {
				return
			}
		}
	}
}

// readAside calls yield for the items of a file until it returns false, which more reports.
func (o *Outbox) readAside(path string, yield func(RejectedItem) bool) (more bool, err error) {
	o.aside.adding.Lock() // else a line that is being added might be read in part
	f, from, err := o.openAside(path)
	o.aside.adding.Unlock()
	if err != nil {
		return true, err
	}
	defer f.Close()
	unread := int64(0)
	for l, err := range asideLines(from) {
		switch {
		case err != nil:
			return true, err
		case l.unread:
			unread += l.size
		case !l.blank() && !yield(RejectedItem{itemOf(l.text), sha256.Sum256(l.text)}):
			return false, nil
		}
	}
	if err := from.blind(); err != nil { // the disk may be away for a while
		return true, err
	}
	o.noteAside(path, from, unread)
	return true, nil
}

// openAside opens a file of items that were set aside, to be read up to its present end.
func (o *Outbox) openAside(path string) (durable.File, *patched, error) {
	f, err := o.cfg.Disk.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	// A block that was not read is tried again at the next start: a disk may take seconds for it.
	return f, &patched{f: f, size: info.Size(), bad: maps.Clone(o.aside.bad[path])}, nil
}

// asideLine is a line of a file of items that were set aside.
type asideLine struct {
	at, size int64  // bytes, with its end
	text     []byte // without its end; valid until the next line is read
	unread   bool   // the disk does not read it, or it is too long to be read
}

// blank reports whether a line holds nothing, such as one that overwrite was given, perhaps cut
// short: SetAside's begin with no space.
func (l *asideLine) blank() bool { return !l.unread && (len(l.text) == 0 || l.text[0] == ' ') }

// asideLines returns the lines of a file of items that were set aside.
func asideLines(from *patched) iter.Seq2[asideLine, error] {
	return func(yield func(asideLine, error) bool) {
		lines := bufio.NewReaderSize(io.NewSectionReader(from, 0, from.size), windowBytes)
		for at := int64(0); at < from.size; {
			text, size, err := readLine(lines)
			l := asideLine{at: at, size: size, text: text, unread: size > maxLine || from.isBad(at, size)}
			if !yield(l, err) || err != nil {
				return
			}
			at += size
		}
	}
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
		o.cfg.Log.Error("items that were set aside cannot be read, and are not offered: they are left as they are",
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

// RemoveRejected removes lines that Rejected returned, and each file of which nothing else is
// left. All others stay, those that cannot be read included.
func (o *Outbox) RemoveRejected(taken map[Line]bool) error {
	o.aside.adding.Lock()
	defer o.aside.adding.Unlock()
	var failed error
	for _, path := range o.asidePaths() {
		if err := o.removeTaken(path, taken); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	if err := errors.Join(failed, o.cfg.Disk.SyncDir(filepath.Dir(o.cfg.RejectedPath))); err != nil {
		return fmt.Errorf("remove rejected items: %w", err)
	}
	return nil
}

// removeTaken removes lines of a file, or the file.
func (o *Outbox) removeTaken(path string, taken map[Line]bool) error {
	found, err := o.findTaken(path, taken)
	switch {
	case err != nil:
		return err
	case !found.others:
		delete(o.aside.bad, path)
		return o.cfg.Disk.Remove(path)
	case len(found.gone) == 0:
		return nil
	case found.bad: // what the disk does not read could not be copied to another file
		return o.overwrite(path, found.gone)
	}
	err = o.rewriteWithout(path, found.gone)
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	if found, err = o.findTaken(path, taken); err != nil { // the file may have been written all the same
		return err
	}
	return o.overwrite(path, found.gone) // which needs no room
}

// takenLines holds the lines of a file that are to be removed, and whether others stay.
type takenLines struct {
	gone   []asideLine // that are to be removed, without their texts
	others bool        // there are other lines
	bad    bool        // there are blocks that the disk does not read
}

// findTaken finds the lines of a file that are to be removed.
func (o *Outbox) findTaken(path string, taken map[Line]bool) (found takenLines, err error) {
	f, from, err := o.openAside(path)
	if err != nil {
		return found, err
	}
	defer f.Close()
	for l, err := range asideLines(from) {
		switch {
		case err != nil:
			return found, err
		case !l.unread && taken[sha256.Sum256(l.text)], l.blank() && len(bytes.TrimLeft(l.text, " ")) > 0:
			found.gone = append(found.gone, asideLine{at: l.at, size: l.size})
		case !l.blank():
			found.others = true
		}
	}
	found.bad = len(from.bad) > 0
	return found, nil
}

// overwrite puts spaces in the place of lines of a file.
func (o *Outbox) overwrite(path string, gone []asideLine) error {
	f, err := o.cfg.Disk.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for _, l := range gone { // after a power cut each is blank, whatever came first of the rest
		if _, err := f.WriteAt([]byte(" "), l.at); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.SyncData(); err != nil {
		return errors.Join(err, f.Close())
	}
	for _, l := range gone {
		spaces := append(bytes.Repeat([]byte(" "), int(l.size-1)), '\n')
		if _, err := f.WriteAt(spaces, l.at); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.SyncData(), f.Close())
}

// rewriteWithout writes a file anew without some of its lines.
func (o *Outbox) rewriteWithout(path string, gone []asideLine) error {
	return o.cfg.Disk.Write(path, 0o600, func(to io.Writer) error {
		f, err := o.cfg.Disk.OpenFile(path, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		at := int64(0)
		for _, l := range append(gone, asideLine{at: info.Size()}) {
			if _, err := io.Copy(to, io.NewSectionReader(f, at, l.at-at)); err != nil {
				return err
			}
			at = l.at + l.size
		}
		return nil
	})
}
