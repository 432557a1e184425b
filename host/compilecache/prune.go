package compilecache

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// minAge is for how long what was used stays, which another process may be about to load.
const minAge = 5 * time.Minute

// own matches the names of what engines and the host write: a compiled or rewritten module
// by its SHA-256, or one of which a process that was killed wrote a part.
var own = regexp.MustCompile("^([0-9a-f]{64}|part[0-9]+)$")

// modules returns the paths of the modules in dir that the host rewrote and its engines
// compiled. dir may hold what is not a cache's.
func modules(dir string) (paths []string, err error) {
	for _, folder := range []string{"wazero", "wasmtime-*", "rewritten"} {
		found, err := fs.Glob(os.DirFS(dir), folder+"/*") // dir itself is no pattern
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if own.MatchString(path.Base(name)) {
				paths = append(paths, filepath.Join(dir, filepath.FromSlash(name)))
			}
		}
	}
	return paths, nil
}

// Prune removes modules from dir until what is left has at most limit bytes, first those
// that were written or used longest ago. What was used within minAge stays, and so does
// whatever is not a module. One that is needed after all is compiled anew. An empty dir is
// no cache; one that others may write to is an error.
func Prune(dir string, limit int64, now time.Time) error {
	if dir == "" {
		return nil
	}
	if err := Check(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	type entry struct {
		path   string
		size   int64
		newest time.Time
	}
	paths, err := modules(dir)
	if err != nil {
		return err
	}
	var entries []entry
	total := int64(0)
	for _, path := range paths {
		e := entry{path: path}
		if info, err := os.Stat(path + SumSuffix); err == nil {
			e.newest = info.ModTime()
		}
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
		if err := Remove(e.path); err != nil {
			return err
		}
		total -= e.size
	}
	return nil
}
