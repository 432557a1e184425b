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

// maxLine bounds a line of that file, in bytes.
const maxLine = 2 << 20

// SetAside moves an item that cannot be handed over, with the reason, to a file of
// its own: one JSON object a line, {"id", "at", "reason", "body"}.
func (o *Outbox) SetAside(ctx context.Context, it Item, reason string) error {
	entry := rejected{ID: it.ID, At: o.cfg.Now().UTC(), Reason: reason, Body: it.Body}
	if !json.Valid(it.Body) {
		entry.Body, entry.Raw = nil, it.Body
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("set item aside: %w", err)
	}
	f, err := o.cfg.Disk.OpenFile(o.cfg.RejectedPath, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("set item aside: %w", err)
	}
	line, err = ownLine(f, line)
	if err == nil {
		_, err = f.Write(line)
	}
	if err = errors.Join(err, f.Sync(), f.Close(), o.cfg.Disk.SyncDir(filepath.Dir(o.cfg.RejectedPath))); err != nil {
		return fmt.Errorf("set item aside: %w", err)
	}
	return o.Remove(ctx, it.ID)
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
		_, err = f.ReadAt(last[:], size-1)
		if last[0] != '\n' {
			line = slices.Insert(line, 0, '\n')
		}
	}
	return append(line, '\n'), err
}

// Rejected returns the items that were set aside. A line that cannot be read is an
// item under an id made of it. Nothing may be set aside meanwhile.
func (o *Outbox) Rejected() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		f, err := o.cfg.Disk.OpenFile(o.cfg.RejectedPath, os.O_RDONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(Item{}, fmt.Errorf("read rejected items: %w", err))
			return
		}
		defer f.Close()
		lines := bufio.NewScanner(io.Reader(f))
		lines.Buffer(nil, maxLine)
		for lines.Scan() {
			if it := itemOf(lines.Bytes()); !yield(it, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Item{}, fmt.Errorf("read rejected items: %w", err))
		}
	}
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

// RemoveRejected removes the file of items that were set aside.
func (o *Outbox) RemoveRejected() error {
	err := o.cfg.Disk.Remove(o.cfg.RejectedPath)
	if err == nil {
		err = o.cfg.Disk.SyncDir(filepath.Dir(o.cfg.RejectedPath))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove rejected items: %w", err)
	}
	return nil
}
