package authoring

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestPruneCache(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for i, age := range []time.Duration{time.Hour, 2 * time.Hour, 10 * time.Minute, time.Minute} {
		file := filepath.Join(dir, "wazero", fmt.Sprint("m", i), "v1", "code")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		limit int64
		left  []string
	}{{400, []string{"m0", "m1", "m2", "m3"}}, {399, []string{"m0", "m2", "m3"}}, {200, []string{"m2", "m3"}}, {0, []string{"m3"}}} {
		if err := pruneCache(dir, tt.limit, now); err != nil {
			t.Fatal(err)
		}
		var left []string
		paths, _ := filepath.Glob(filepath.Join(dir, "wazero", "*"))
		for _, path := range paths {
			left = append(left, filepath.Base(path))
		}
		if !slices.Equal(left, tt.left) {
			t.Errorf("with %d bytes: %v, want %v", tt.limit, left, tt.left)
		}
	}
	if err := pruneCache(filepath.Join(dir, "none"), 0, now); err != nil {
		t.Errorf("without a cache: %v", err)
	}
}
