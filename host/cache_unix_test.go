//go:build unix

package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"partneredge/host"
	"partneredge/host/compilecache"
)

// A cache that others may write to is refused before anything in it is loaded.
func TestExposedCacheIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	runtime, err := host.New(t.Context(), host.Config{CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	_, err = host.New(t.Context(), host.Config{CacheDir: dir})
	if exposed, ok := errors.AsType[*compilecache.ExposedError](err); !ok || exposed.Path != dir {
		t.Errorf("%v", err)
	}
}
