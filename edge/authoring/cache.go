package authoring

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"partneredge/host/compilecache"
)

// Bounds of the folder of compiled modules. Each save of an author adds one.
const (
	maxCache = 256 << 20       // bytes
	minAge   = 5 * time.Minute // another process may use what is younger
)

// digest matches the name of a compiled or rewritten module: a SHA-256.
var digest = regexp.MustCompile("^[0-9a-f]{64}$")

// compiled returns the modules in dir that the host rewrote and its engines compiled.
// Authors choose dir, so it may hold what is not a cache's.
func compiled(dir string) (paths []string, err error) {
	for _, folder := range []string{"wazero", "wasmtime-*", "rewritten"} {
		found, err := filepath.Glob(filepath.Join(dir, folder, "*"))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if digest.MatchString(filepath.Base(path)) {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

// pruneCache removes the oldest compiled modules from dir until what is left has at most
// limit bytes. What is younger than minAge stays, and so does whatever is not a compiled
// module. A module that is needed after all is compiled anew. An empty dir is no cache;
// one that others may write to is an error.
func pruneCache(dir string, limit int64, now time.Time) error {
	if dir == "" {
		return nil
	}
	if err := compilecache.Check(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	type entry struct {
		path   string
		size   int64
		newest time.Time
	}
	modules, err := compiled(dir)
	if err != nil {
		return err
	}
	var entries []entry
	total := int64(0)
	for _, path := range modules {
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
		if err := compilecache.Remove(e.path); err != nil {
			return err
		}
		total -= e.size
	}
	return nil
}
