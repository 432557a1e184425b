package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// asked is a source that records what it was asked for.
type asked struct {
	Source
	blobs      []digest.Digest
	signatures int
}

func (a *asked) Manifest(ctx context.Context, name string) ([]byte, error) {
	a.blobs = append(a.blobs, digest.Digest(name))
	return a.Source.Manifest(ctx, name)
}

func (a *asked) Blob(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	a.blobs = append(a.blobs, d.Digest)
	return a.Source.Blob(ctx, d)
}

func (a *asked) Signatures(ctx context.Context, name string) ([][]byte, error) {
	a.signatures++
	return a.Source.Signatures(ctx, name)
}

func openDir(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func fetch(t *testing.T, d *Dir, src Source, name string, p Policy) *Release {
	t.Helper()
	r, err := d.Fetch(t.Context(), src, name, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// reopen opens a release that a directory has all of.
func reopen(t *testing.T, d *Dir, name string, p Policy) {
	t.Helper()
	if _, err := Open(t.Context(), d, name, p); err != nil {
		t.Fatal(err)
	}
}

// TestDirKeeps checks that a fetched release can be opened without the source, also
// after a restart, and that damaged content, and nothing else, is fetched again.
func TestDirKeeps(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	name := s.pack("1.4.0")
	s.sign(name, key)
	path := filepath.Join(t.TempDir(), "releases")
	src := &asked{Source: OCI(s)}
	r := fetch(t, openDir(t, path), src, name, trusting(key))
	if len(src.blobs) != 8 || src.signatures != 1 { // manifest, config, three modules with theirs
		t.Errorf("asked for %d blobs and %d times for signatures", len(src.blobs), src.signatures)
	}
	reopen(t, openDir(t, path), name, trusting(key))
	_, err := Open(t.Context(), openDir(t, t.TempDir()), name, trusting(key))
	wants(t, err, ErrNotFound)

	file := func(d digest.Digest) string { return filepath.Join(path, "blobs", "sha256", d.Encoded()) }
	for what, damage := range map[string]func(digest.Digest) error{
		"gone": func(d digest.Digest) error { return os.Remove(file(d)) },
		"of the same size": func(d digest.Digest) error {
			text, err := os.ReadFile(file(d))
			if err != nil {
				return err
			}
			return os.WriteFile(file(d), flip(text), 0o600)
		},
		"emptied": func(d digest.Digest) error { return os.Truncate(file(d), 0) },
		"replaced": func(d digest.Digest) error {
			return os.WriteFile(file(d), []byte("\x00asm\x01\x00\x00\x00evil"), 0o600)
		},
	} {
		for _, hit := range []digest.Digest{r.Modules[1].wasm.Digest, r.config.Digest, r.descriptor.Digest} {
			if err := damage(hit); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), openDir(t, path), name, trusting(key)); err == nil {
				t.Errorf("%s: opened what is damaged", what)
			}
			src := &asked{Source: OCI(s)}
			fetch(t, openDir(t, path), src, name, trusting(key))
			if len(src.blobs) != 1 || src.blobs[0] != hit {
				t.Errorf("%s: asked for %v, want %s", what, src.blobs, hit)
			}
			reopen(t, openDir(t, path), name, trusting(key))
		}
	}
	// Neither the index nor what a killed process left is relied on.
	for _, index := range []string{"index.json", "oci-layout", filepath.Join("blobs", "sha256", ".part-1")} {
		writeFile(t, filepath.Join(path, index), "{")
	}
	reopen(t, openDir(t, path), name, trusting(key))
	if left, _ := filepath.Glob(filepath.Join(path, "blobs", "sha256", ".part-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	// Another tool reads it.
	store, err := oci.New(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), OCI(store), name, trusting(key)); err != nil {
		t.Error(err)
	}
	if d, err := store.Resolve(t.Context(), "1.4.0"); err != nil || string(d.Digest) != name {
		t.Errorf("tag 1.4.0 is %v, %v", d, err)
	}
}

// TestIndexNamesWhatIsThere: a manifest that was damaged on disk is not named to other tools,
// neither by the digest that it had nor by the one that it has now.
func TestIndexNamesWhatIsThere(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	name := s.pack("1.4.0")
	s.sign(name, key)
	path := filepath.Join(t.TempDir(), "releases")
	r := fetch(t, openDir(t, path), OCI(s), name, trusting(key))
	changed := strings.Replace(string(r.manifest), "1970-01-01", "1971-01-01", 1)
	writeFile(t, filepath.Join(path, "blobs", "sha256", digest.Digest(name).Encoded()), changed)
	for named := range openDir(t, path).manifests {
		if named == digest.Digest(name) || named == digest.FromString(changed) {
			t.Errorf("%s is named", named)
		}
	}
}

// TestDirVerifiesWhatIsPushed: content that is not what its descriptor says is not kept.
func TestDirVerifiesWhatIsPushed(t *testing.T) {
	d := openDir(t, t.TempDir())
	want := content.NewDescriptorFromBytes(SignatureType, []byte("right"))
	for _, text := range []string{"wrong", "righ", "right and more"} {
		if err := (pusher{d}).Push(t.Context(), want, strings.NewReader(text)); err == nil {
			t.Errorf("%q is kept as %q", text, "right")
		}
	}
	if files, err := os.ReadDir(d.blobs()); err != nil || len(files) != 0 {
		t.Errorf("kept %v, %v", files, err)
	}
}

// TestDirShares: of a second release only what is new is asked for; modules that
// stay are on disk once, until the last that has them goes.
func TestDirShares(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	modules := modulesDir(t, "", "agents", "gate")
	var names []string
	for _, version := range []string{"1.0.0", "1.0.1"} {
		d, err := Pack(t.Context(), s, modules, version)
		if err != nil {
			t.Fatal(err)
		}
		s.sign(string(d.Digest), key)
		names = append(names, string(d.Digest))
	}
	d := openDir(t, t.TempDir())
	fetch(t, d, OCI(s), names[0], trusting(key))
	src := &asked{Source: OCI(s)}
	fetch(t, d, src, names[1], trusting(key))
	if len(src.blobs) != 2 { // manifest and config
		t.Errorf("asked for %d blobs", len(src.blobs))
	}
	if err := d.Prune(names[1]); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), d, names[0], trusting(key))
	wants(t, err, ErrNotFound)
	reopen(t, d, names[1], trusting(key))
	if err := d.Prune(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(d.blobs()); len(left) != 0 {
		t.Errorf("%d files are left of no release", len(left))
	}
}

// TestPruneMakesRoom: a disk that takes no more writes loses the releases that are not kept,
// and those that are can be read, also after a restart.
func TestPruneMakesRoom(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	path := filepath.Join(t.TempDir(), "releases")
	d := openDir(t, path)
	gone, stays := s.pack("1.0.0"), s.pack("1.0.1")
	for _, name := range []string{gone, stays} {
		s.sign(name, key)
		fetch(t, d, OCI(s), name, trusting(key))
	}
	disk := durabletest.New(t, path)
	disk.Before(func(op durabletest.Op) error {
		if op.Kind == durabletest.Write {
			return syscall.ENOSPC
		}
		return nil
	})
	d.disk = durable.Disk{FS: disk}
	wants(t, d.Prune(stays), syscall.ENOSPC)
	if _, err := d.Manifest(t.Context(), gone); !errors.Is(err, ErrNotFound) {
		t.Errorf("what is not kept is still there: %v", err)
	}
	again, err := openDirOn(d.disk, path)
	if err != nil {
		t.Fatalf("restarted: %v", err)
	}
	reopen(t, again, stays, trusting(key))
}

// TestDirSignatures checks that signatures are fetched again if the kept ones do not
// satisfy the policy.
func TestDirSignatures(t *testing.T) {
	s, before, after := newLayout(t), newPair(t), newPair(t)
	name := s.pack("1.4.0")
	s.sign(name, before)
	d := openDir(t, t.TempDir())
	fetch(t, d, OCI(s), name, trusting(before))
	_, err := d.Fetch(t.Context(), OCI(s), name, trusting(after))
	wants(t, err, ErrWrongKey)
	s.sign(name, after)
	fetch(t, d, OCI(s), name, trusting(after))
	reopen(t, d, name, trusting(after))
	src := &asked{Source: OCI(s)}
	fetch(t, d, src, name, trusting(before))
	if src.signatures != 0 {
		t.Error("asked for a signature that is on disk")
	}
	// A source's own error is passed on.
	gone := errors.New("gone")
	_, err = openDir(t, t.TempDir()).Fetch(t.Context(), failing{gone}, name, trusting(before))
	wants(t, err, gone)
}

// failing is a source that cannot be reached.
type failing struct{ err error }

func (f failing) Manifest(context.Context, string) ([]byte, error)         { return nil, f.err }
func (f failing) Blob(context.Context, ocispec.Descriptor) ([]byte, error) { return nil, f.err }
func (f failing) Signatures(context.Context, string) ([][]byte, error)     { return nil, f.err }

// withMore is a source that has more signatures.
type withMore struct {
	Source
	more [][]byte
}

func (s withMore) Signatures(ctx context.Context, name string) ([][]byte, error) {
	all, err := s.Source.Signatures(ctx, name)
	return append(slices.Clone(s.more), all...), err
}

// TestWhatIsNoSignature: what was attached to a release in place of a signature is left out,
// also where it reads like the manifest of one, and was kept before.
func TestWhatIsNoSignature(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	name := s.pack("1.4.0")
	s.sign(name, key)
	junk := fmt.Appendf(nil, `{"artifactType":%q,"subject":{"digest":%q}}`, SignatureType, name)
	path := filepath.Join(t.TempDir(), "releases")
	d := openDir(t, path)
	fetch(t, d, withMore{OCI(s), [][]byte{junk, []byte("none"), make([]byte, MaxSignature+1)}}, name, trusting(key))
	if kept, err := d.Signatures(t.Context(), name); err != nil || len(kept) != 1 {
		t.Errorf("%d signatures are kept, %v, want 1", len(kept), err)
	}
	for range 2 {
		writeFile(t, filepath.Join(path, "blobs", "sha256", digest.FromBytes(junk).Encoded()), string(junk))
		d = openDir(t, path)
		if err := d.Prune(name); err != nil {
			t.Error(err)
		}
		reopen(t, d, name, trusting(key))
	}
}
