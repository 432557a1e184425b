package authoring

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Bounds of the folder of compiled modules. Each save of an author adds one.
const (
	maxCache = 256 << 20       // bytes
	minAge   = 5 * time.Minute // another process may use what is younger
)

// pruneCache removes the oldest compiled modules from dir until what is left has at most
// limit bytes. What is younger than minAge stays. A module that is needed after all is
// compiled anew.
func pruneCache(dir string, limit int64, now time.Time) error {
	type entry struct {
		path   string
		size   int64
		newest time.Time
	}
	folders, err := filepath.Glob(filepath.Join(dir, "*", "*")) // by engine and module
	if err != nil {
		return err
	}
	var entries []entry
	total := int64(0)
	for _, path := range folders {
		e := entry{path: path}
		err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				e.size += info.Size()
				if info.ModTime().After(e.newest) {
					e.newest = info.ModTime()
				}
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another process prunes as well
			return err
		}
		total += e.size
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.newest.Compare(b.newest), cmp.Compare(a.path, b.path)) })
	for _, e := range entries {
		if total <= limit || now.Sub(e.newest) < minAge {
			break
		}
		if err := os.RemoveAll(e.path); err != nil {
			return err
		}
		total -= e.size
	}
	return nil
}
