package outbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// goneSuffix ends the name of a segment's marks.
const goneSuffix = ".gone"

// segmentPath returns the path of a segment of the outbox at path. An outbox of an
// earlier build had one file, which is number 0.
func segmentPath(path string, number int) string {
	if number == 0 {
		return path
	}
	return path + "." + strconv.Itoa(number)
}

// parseName returns which segment of the outbox named base a file belongs to, and
// how its name ends.
func parseName(base, name string) (number int, suffix string, ok bool) {
	suffix, ok = strings.CutPrefix(name, base)
	if !ok {
		return 0, "", false
	}
	if digits, after, _ := strings.Cut(strings.TrimPrefix(suffix, "."), "."); digits != "" {
		if n, err := strconv.Atoi(digits); err == nil && segmentPath("", n) == "."+digits {
			if suffix = after; after != "" {
				suffix = "." + after
			}
			return n, suffix, true
		}
	}
	return 0, suffix, true
}

// load opens all segments.
func (o *Outbox) load() error {
	dir, base := filepath.Split(o.cfg.Path)
	_ = o.cfg.Disk.Remove(o.cfg.Path + ".new") // of an earlier build that was killed
	entries, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("open outbox: %w", err)
	}
	var numbers []int
	var marks []string
	var kept []kept
	for _, e := range entries {
		number, suffix, ok := parseName(base, e.Name())
		if !ok {
			continue
		}
		k, isKept := parseKept(number, suffix)
		switch {
		case suffix == "":
			numbers = append(numbers, number)
		case suffix == goneSuffix:
			marks = append(marks, e.Name())
		case isKept:
			kept = append(kept, k)
		default:
			continue
		}
		o.next = max(o.next, number+1)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		s, err := o.openSegment(number)
		if err != nil {
			return err
		}
		o.segments = append(o.segments, s)
		o.waiting += s.waiting
		marks = slices.DeleteFunc(marks, func(name string) bool { return name == filepath.Base(s.marks.path) })
	}
	for _, name := range marks { // of segments that are gone
		if err := o.cfg.Disk.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("open outbox: %w", err)
		}
	}
	if err := o.loadKept(kept, numbers); err != nil {
		return fmt.Errorf("open outbox: %w", err)
	}
	if len(o.segments) == 0 {
		return nil
	}
	if s := o.segments[len(o.segments)-1]; !s.sealed && s.end < o.cfg.SegmentBytes {
		s.maxSize = min(o.cfg.SegmentBytes, o.cfg.MaxBytes-o.used()+s.end)
		o.tail = s
	}
	if err := o.cfg.Disk.SyncDir(filepath.Clean(dir)); err != nil { // a name may not be on disk yet
		return fmt.Errorf("open outbox: %w", err)
	}
	return nil
}

// askForUpkeep asks the writer to do its upkeep now and then, until ctx ends.
func (o *Outbox) askForUpkeep(ctx context.Context) {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := o.ask(ctx, job{task: o.upkeep}); err != nil && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
				o.cfg.Log.Error("outbox upkeep failed", "err", err)
			}
		}
	}
}
