package local

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// TestRecordsPowerCut holds that the records after a power cut are those of one
// moment, and of none before the last sync.
func TestRecordsPowerCut(t *testing.T) {
	var states []map[string]string // after each change, the first of none
	synced := 0
	most := 0
	durabletest.Cuts(t, func(disk *durabletest.Disk, dir string) {
		now := map[string]string{}
		states, synced = []map[string]string{maps.Clone(now)}, 0
		f, err := openFile(durable.Disk{FS: disk}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			return
		}
		f.shrinkFrom = 256
		for i := range 60 {
			key := fmt.Sprint("k", i%7)
			if i%5 == 4 {
				if f.remove(key) == nil {
					delete(now, key)
				}
			} else if value := seal(key, putText(newValue(16), fmt.Sprint("value ", i))); f.set(key, value) == nil {
				now[key] = value
			}
			states = append(states, maps.Clone(now))
			switch {
			case i%6 == 5:
				if f.sync() == nil {
					synced = len(states) - 1
				}
			case i%11 == 10:
				_ = f.shrink()
			}
		}
		_ = f.close()
		most = max(most, disk.Count(durabletest.Rename))
	}, func(when, dir string) {
		f, err := openFile(durable.Disk{}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer f.close()
		got := map[string]string{}
		if err := f.each("", "", func(key, value string) bool { got[key] = value; return true }); err != nil {
			t.Fatal(err)
		}
		for _, state := range states[synced:] {
			if maps.Equal(got, state) {
				return
			}
		}
		t.Fatalf("%s: %d records that there never were at one time since the last sync (change %d)", when, len(got), synced)
	})
	if most < 2 {
		t.Errorf("the file was rewritten %d times, want 2 at least", most)
	}
}
