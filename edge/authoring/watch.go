package authoring

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// poll is the time between two looks at the sources. Asking for the state of a few dozen
// files takes less than a millisecond, is the same on every system, and misses no
// editor's way of saving.
const poll = 100 * time.Millisecond

// file holds the attributes of a file that change when it is saved.
type file struct {
	size     int64
	modified time.Time
}

// snapshot returns the state of a module's files in dir. What was built into out, and what
// begins with a dot, does not count. Both are absolute, without links.
func snapshot(dir, out string) map[string]file {
	files := map[string]file{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // a file that is gone has changed
		if err != nil {
			return nil // of the folder itself there is no d then
		}
		name := d.Name()
		switch {
		case d.IsDir() && path != dir && (strings.HasPrefix(name, ".") || name == "target" || path == out):
			return filepath.SkipDir
		case d.IsDir() || strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~"):
			return nil
		case filepath.Dir(path) == out && isBuilt(out, name):
			return nil
		}
		if info, err := d.Info(); err == nil {
			files[path] = file{info.Size(), info.ModTime()}
		}
		return nil
	})
	return files
}

// isBuilt reports whether a file of the folder out is one that Build writes there:
// NAME.wasm, and NAME.json beside it.
func isBuilt(out, name string) bool {
	module, described := strings.CutSuffix(name, ".json")
	if !described {
		return strings.HasSuffix(name, ".wasm") || strings.HasSuffix(name, ".wasm.part")
	}
	_, err := os.Stat(filepath.Join(out, module+".wasm"))
	return err == nil
}

// watch calls changed after files are no longer as in built, and have then been left
// alone for one poll, until ctx ends.
func watch(ctx context.Context, dir, out string, built map[string]file, changed func()) {
	ticker := time.Tick(poll)
	last := built
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker:
		}
		now := snapshot(dir, out)
		if settled := maps.Equal(now, last); settled && !maps.Equal(now, built) {
			built = now
			changed()
		}
		last = now
	}
}
