package release

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// TestDirOutlivesAPowerCut cuts the power ahead of each file that a fetch puts in its place.
// Of a release whose manifest is there nothing lacks, and one that was fetched is there.
func TestDirOutlivesAPowerCut(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	packed, err := Pack(t.Context(), s.Store, modulesDir(t, "", "gate"), "1.4.0")
	if err != nil {
		t.Fatal(err)
	}
	name := string(packed.Digest)
	s.sign(name, key)
	for n, done := 1, false; !done; n++ {
		path := filepath.Join(t.TempDir(), "releases")
		openDir(t, path) // makes the folders
		disk := durabletest.New(t, path)
		d, err := openDirOn(durable.Disk{FS: disk}, path)
		if err != nil {
			t.Fatal(err)
		}
		disk.Before(func(op durabletest.Op) error {
			if op.Kind == durabletest.Rename && op.Of == n {
				return durabletest.ErrPowerCut
			}
			return nil
		})
		_, err = d.Fetch(t.Context(), OCI(s), name, trusting(key))
		if done = err == nil; done {
			files, err := os.ReadDir(d.blobs())
			if err != nil || disk.Count(durabletest.Rename) != len(files)+1 { // and the index
				t.Errorf("%d files are put in place, and %d are there, %v", disk.Count(durabletest.Rename), len(files), err)
			}
		} else if !errors.Is(err, durabletest.ErrPowerCut) {
			t.Fatal(err)
		}
		disk.Cut(nil)
		d = openDir(t, path)
		_, known := d.manifests[packed.Digest]
		_, err = Inspect(t.Context(), d, name)
		if known != (err == nil) || done && !known {
			t.Errorf("cut at file %d: the manifest is there: %t, and of the release: %v", n, known, err)
		}
		if _, err := Open(t.Context(), d, name, trusting(key)); done && err != nil {
			t.Errorf("kept before the cut: %v", err)
		}
	}
}
