package compilecache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPrune(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for i, age := range []time.Duration{time.Hour, 2 * time.Hour, 10 * time.Minute, time.Minute} {
		file := filepath.Join(dir, "wazero", fmt.Sprintf("%064x", i), "v1", "code")
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
	}{{400, []string{"0", "1", "2", "3"}}, {399, []string{"0", "2", "3"}}, {200, []string{"2", "3"}}, {0, []string{"3"}}} {
		if err := Prune(dir, tt.limit, now); err != nil {
			t.Fatal(err)
		}
		var left []string
		paths, _ := filepath.Glob(filepath.Join(dir, "wazero", "*"))
		for _, path := range paths {
			left = append(left, filepath.Base(path)[63:])
		}
		if !slices.Equal(left, tt.left) {
			t.Errorf("with %d bytes: %v, want %v", tt.limit, left, tt.left)
		}
	}
	if err := Prune(filepath.Join(dir, "none"), 0, now); err != nil {
		t.Errorf("without a cache: %v", err)
	}
}

// TestPruneOwn holds that only compiled modules are removed, whatever else lies in the
// folder, and nothing from one that others may write to.
func TestPruneOwn(t *testing.T) {
	dir, name := filepath.Join(t.TempDir(), "[a"), strings.Repeat("a", 64) // no pattern
	others := []string{"browser/" + name, "wazero/notes", "wazero/" + name + "0", "go-build/00/code", "wasmtime-1/" + strings.ToUpper(name), "rewritten/partly"}
	own := []string{"wazero/" + name, "wasmtime-1/" + name, "wasmtime-1/" + name + ".sum", "rewritten/" + name, "rewritten/" + name + ".sum", "rewritten/part1", "wazero/part22"}
	for _, file := range slices.Concat(others, own) {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Hour)
	there := func(file string) bool {
		_, err := os.Stat(filepath.Join(dir, file))
		return err == nil
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var exposed *ExposedError
	if err := Prune(dir, 0, later); !errors.As(err, &exposed) || !there(own[0]) {
		t.Errorf("a folder that all may write to: %v, module kept: %t", err, there(own[0]))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Prune(dir, 0, later); err != nil {
		t.Fatal(err)
	}
	for _, file := range others {
		if !there(file) {
			t.Errorf("%s is gone, which is no compiled module", file)
		}
	}
	for _, file := range own {
		if there(file) {
			t.Errorf("%s is still there", file)
		}
	}
	if err := Prune("", 0, later); err != nil {
		t.Errorf("without a cache: %v", err)
	}
}

// TestPruneLeavesWhatIsUsed holds that a module that was compiled long ago and is loaded
// again and again outlives one that was compiled after it and is not.
func TestPruneLeavesWhatIsUsed(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	path := func(nth int) string { return filepath.Join(dir, "rewritten", fmt.Sprintf("%064x", nth)) }
	for nth := range 3 {
		if err := WriteFile(path(nth), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		age := time.Duration(3-nth) * time.Hour
		for _, file := range []string{path(nth), path(nth) + SumSuffix} {
			if err := os.Chtimes(file, now, now.Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := ReadFile(path(0)); err != nil {
		t.Fatal(err)
	}
	if err := Verify(path(1)); err != nil {
		t.Fatal(err)
	}
	if err := Prune(dir, 250, now); err != nil {
		t.Fatal(err)
	}
	for nth, want := range []bool{true, true, false} {
		if _, err := os.Stat(path(nth)); (err == nil) != want {
			t.Errorf("module %d is left: %v, want %t", nth, err, want)
		}
	}
}
