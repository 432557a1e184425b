package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"partneredge/store/durable"
)

// kept is a segment whose items have all been handed over. Its file has the name
// that it had, with keptSuffix and the time of the last hand-over in Unix seconds.
type kept struct {
	number int
	path   string
	size   int64
	at     time.Time
}

const keptSuffix = ".kept-"

// parseKept returns the kept segment with a number whose file's name ends with a
// suffix.
func parseKept(number int, suffix string) (k kept, ok bool) {
	text, ok := strings.CutPrefix(suffix, keptSuffix)
	at, err := strconv.ParseInt(text, 10, 64)
	return kept{number: number, at: time.Unix(at, 0)}, ok && err == nil
}

// loadKept takes note of kept segments. One whose number a segment has is of a
// change of names that a power cut has left half done.
func (o *Outbox) loadKept(all []kept, numbers []int) error {
	for _, k := range all {
		k.path = keptPath(o.cfg.Path, k)
		if slices.Contains(numbers, k.number) {
			if err := o.cfg.Disk.Remove(k.path); err != nil {
				return err
			}
			continue
		}
		info, err := os.Stat(k.path)
		if err != nil {
			return err
		}
		k.size = info.Size()
		o.kept = append(o.kept, k)
	}
	sortKept(o.kept)
	return nil
}

func keptPath(path string, k kept) string {
	return segmentPath(path, k.number) + keptSuffix + strconv.FormatInt(k.at.Unix(), 10)
}

func (o *Outbox) keptBytes() (n int64) {
	for _, k := range o.kept {
		n += k.size
	}
	return n
}

// keep keeps a segment in which nothing waits.
func (o *Outbox) keep(s *segment) error {
	s.truncate()
	k := kept{number: s.number, size: s.end, at: s.removed}
	k.path = keptPath(o.cfg.Path, k)
	if err := s.disk.Rename(s.path, k.path); err != nil && !durable.IsAt(s.f, k.path) {
		return err
	}
	o.kept = append(o.kept, k)
	o.trim()
	return o.leave(s)
}

// trim removes the kept segments that are too old, or beyond their share.
func (o *Outbox) trim() {
	for len(o.kept) > 0 {
		size := o.keptBytes()
		if !o.over(o.kept[0].at) && size <= min(o.cfg.MaxBytes, o.cfg.free()+size)/4 {
			return
		}
		o.removeKept()
	}
}

// restamp gives kept segments of a time that lies ahead, since the clock was put back,
// the present time: else they would be kept for too long.
func (o *Outbox) restamp() {
	now := o.cfg.Now()
	for i, k := range o.kept {
		if !k.at.After(now) {
			continue
		}
		k.at = now
		k.path = keptPath(o.cfg.Path, k)
		if err := o.cfg.Disk.Rename(o.kept[i].path, k.path); err != nil {
			o.cfg.Log.Error("outbox cannot rename what was handed over", "file", o.kept[i].path, "err", err)
			continue
		}
		o.kept[i] = k
	}
	sortKept(o.kept)
}

func sortKept(all []kept) {
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.at.Compare(b.at), a.number-b.number) })
}

// removeKept removes the oldest kept segment.
func (o *Outbox) removeKept() {
	k := o.kept[0]
	o.kept = o.kept[1:]
	if err := o.cfg.Disk.Remove(k.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		o.cfg.Log.Error("outbox cannot remove what was handed over", "file", k.path, "err", err)
	}
}

// OfferAgain marks all items that were handed over and are still stored as waiting: those
// that are kept, and those beside items that wait. It is for a receiver that may
// have lost them, and nothing of it is undone by a power cut.
func (o *Outbox) OfferAgain(ctx context.Context) error {
	if err := o.ask(ctx, job{task: o.offerAgain}); err != nil {
		return fmt.Errorf("offer items again: %w", err)
	}
	return nil
}

func (o *Outbox) offerAgain() (failed error) {
	before := o.waiting
	o.kept = slices.DeleteFunc(o.kept, func(k kept) bool {
		err := o.unkeep(k)
		failed = errors.Join(failed, err)
		return err == nil
	})
	for _, s := range o.segments {
		failed = errors.Join(failed, o.unmark(s))
	}
	failed = errors.Join(failed, o.cfg.Disk.SyncDir(filepath.Dir(o.cfg.Path)))
	if n := o.waiting - before; n > 0 {
		o.cfg.Log.Warn("items that were handed over are offered again", "items", n)
		o.wake.Send()
	}
	return failed
}

// unkeep opens a kept segment again.
func (o *Outbox) unkeep(k kept) error {
	path := segmentPath(o.cfg.Path, k.number)
	if _, err := os.Stat(k.path); err == nil { // else it has its name back since the last try
		if err := o.cfg.Disk.Rename(k.path, path); err != nil {
			return err
		}
	}
	s, err := o.openSegment(k.number)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.blind != nil { // the disk may be away for a while
		s.closeFiles()
		return s.blind
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.segments = append(o.segments, s)
	slices.SortFunc(o.segments, func(a, b *segment) int { return a.number - b.number })
	o.waiting += s.waiting
	return nil
}

// unmark marks the items of a segment that are marked as gone as waiting again, but for those
// that the disk does not read. After an error, as where it reads nothing, the segment is as it was, since one
// in which nothing waits is retired.
func (o *Outbox) unmark(s *segment) error {
	if s.dead() == 0 && s.bad == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	before, unreadable := s.items, maps.Clone(s.unreadable)
	s.items = items{seed: before.seed}
	from := &patched{f: s.f, size: s.end}
	_, _, err := s.index(from)
	if err == nil {
		err = from.blind()
	}
	if err == nil && !s.items.hasAllOf(&before) {
		s.items, err = before.with(&s.items, from)
		s.unreadable = unreadable
	}
	if err == nil {
		err = s.marks.remove()
	}
	if err != nil {
		s.items, s.unreadable = before, unreadable
		return err
	}
	if s.bad = min(s.bad, from.badBytes()); len(from.bad) > 0 {
		o.leaveBad(s, from)
	}
	o.waiting += s.waiting - before.waiting
	return nil
}
