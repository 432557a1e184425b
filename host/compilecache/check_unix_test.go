//go:build unix

package compilecache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// newCache makes a cache with one file in a folder, and a link to the cache.
func newCache(t *testing.T) (link, folder, file string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cache")
	folder = filepath.Join(dir, "wazero")
	file = filepath.Join(folder, "module")
	link = dir + "-link"
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, []byte("code"), 0o644), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	return link, folder, file
}

func TestCheckModes(t *testing.T) {
	for mode, owned := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o750: true, 0o770: false, 0o702: false, 0o777: false, 0o720: false} {
		for _, which := range []string{"cache", "folder", "file"} {
			link, folder, file := newCache(t)
			path := map[string]string{"cache": filepath.Dir(folder), "folder": folder, "file": file}[which]
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			err := Check(link)
			var exposed *ExposedError
			switch {
			case owned && err != nil:
				t.Errorf("%s %04o: %v", which, mode, err)
			case owned:
			case !errors.As(err, &exposed):
				t.Errorf("%s %04o: %v, want it refused", which, mode, err)
			case exposed.Fix != "chmod -R go-w '"+path+"'" || !strings.Contains(err.Error(), path):
				t.Errorf("%s %04o: %v, fix %q", which, mode, err, exposed.Fix)
			}
		}
	}
}

// ownedBy is the information of a file of another user.
type ownedBy struct {
	fs.FileInfo
	stat syscall.Stat_t
}

func (o ownedBy) Sys() any { return &o.stat }

func TestCheckOwners(t *testing.T) {
	_, _, file := newCache(t)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	user := uint32(os.Geteuid())
	for owner, owned := range map[uint32]bool{0: true, user: true, user + 1: false} {
		err := checkFile(file, ownedBy{info, syscall.Stat_t{Uid: owner}})
		var exposed *ExposedError
		if errors.As(err, &exposed) == owned || !owned && !strings.HasPrefix(exposed.Fix, "chown -R ") {
			t.Errorf("owner %d: %v", owner, err)
		}
	}
}

// A file that disappears is none of the cache's, and a link leads to what counts.
func TestCheckLinks(t *testing.T) {
	link, folder, _ := newCache(t)
	if err := os.Symlink("nothing", filepath.Join(folder, "dangling")); err != nil {
		t.Fatal(err)
	}
	if err := Check(link); err != nil {
		t.Error(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "module")
	if err := errors.Join(os.WriteFile(elsewhere, nil, 0o600), os.Chmod(elsewhere, 0o666), os.Symlink(elsewhere, filepath.Join(folder, "link"))); err != nil {
		t.Fatal(err)
	}
	var exposed *ExposedError
	if err := Check(link); !errors.As(err, &exposed) {
		t.Errorf("a link to a file that others may write to: %v", err)
	}
}
