package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"partneredge/store/durable"
)

// Dir keeps releases on disk, as an OCI layout that other tools can read. It
// verifies all content each time it reads it, so a damaged blob is fetched again.
// It writes the index for other tools and never reads it. It is safe for concurrent
// use within one process.
type Dir struct {
	path string
	disk durable.Disk
	mu   sync.Mutex // guards the files against other writers, and manifests
	// manifests are the kept manifests of releases and signatures, by digest.
	manifests map[digest.Digest]kept
}

// kept is a manifest on disk.
type kept struct {
	ocispec.Descriptor
	subject digest.Digest // of a signature
	blobs   []ocispec.Descriptor
}

// OpenDir opens a directory of releases, and creates it if it does not exist.
func OpenDir(path string) (*Dir, error) {
	return openDirOn(durable.Disk{}, path)
}

func openDirOn(disk durable.Disk, path string) (*Dir, error) {
	d := &Dir{path: path, disk: disk, manifests: make(map[digest.Digest]kept)}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("opening releases: %w", err)
	}
	return d, nil
}

func (d *Dir) open() error {
	if err := os.MkdirAll(d.blobs(), 0o700); err != nil {
		return err
	}
	for _, folder := range []string{d.path, d.blobs()} {
		if err := d.disk.RemoveTemp(folder); err != nil {
			return err
		}
	}
	files, err := os.ReadDir(d.blobs())
	if err != nil {
		return err
	}
	for _, file := range files {
		if info, err := file.Info(); err != nil || info.Size() > MaxManifest {
			continue
		}
		name := digest.NewDigestFromEncoded(digest.SHA256, file.Name())
		text, err := d.read(name, MaxManifest)
		if err == nil && hasDigest(text, string(name)) == nil {
			d.note(text)
		}
	}
	if err := d.write(ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}); err != nil {
		return err
	}
	_ = d.writeIndex() // on a full disk the next change writes it, and the releases can be read
	return nil
}

func (d *Dir) blobs() string { return filepath.Join(d.path, ocispec.ImageBlobsDir, "sha256") }

// note adds text to manifests if it is the manifest of a release or signature. Any content
// may look like one, so its digests are checked.
func (d *Dir) note(text []byte) {
	a, err := Describe(text)
	if err != nil {
		return
	}
	one := kept{blobs: a.Blobs, subject: digest.Digest(a.Subject), Descriptor: ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: a.Type, Digest: digest.FromBytes(text), Size: int64(len(text)),
	}}
	if CheckVersion(a.Version) == nil {
		one.Annotations = map[string]string{ocispec.AnnotationRefName: a.Version}
	}
	d.manifests[one.Digest] = one
}

// Manifest implements Source.
func (d *Dir) Manifest(_ context.Context, name string) ([]byte, error) {
	return d.read(digest.Digest(name), MaxManifest)
}

// Blob implements Source.
func (d *Dir) Blob(_ context.Context, part ocispec.Descriptor) ([]byte, error) {
	return d.read(part.Digest, part.Size)
}

// Signatures implements Source.
func (d *Dir) Signatures(_ context.Context, name string) (all [][]byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, digest := range slices.Sorted(maps.Keys(d.manifests)) {
		one := d.manifests[digest]
		if one.ArtifactType != SignatureType || string(one.subject) != name || len(one.blobs) != 2 || len(all) == MaxSignatures {
			continue
		}
		if text, err := d.read(one.blobs[0].Digest, MaxSignature); err == nil {
			all = append(all, text)
		}
	}
	return all, nil
}

// read returns at most limit bytes of the content of a digest.
func (d *Dir) read(name digest.Digest, limit int64) ([]byte, error) {
	if err := CheckDigest(string(name)); err != nil {
		return nil, err
	}
	text, err := readFile(filepath.Join(d.blobs(), name.Encoded()), limit)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is not on disk", ErrNotFound, name)
	}
	return text, err
}

// Fetch opens a release from the directory and asks src only for what is missing or
// damaged there. It verifies all of the release before it keeps it on disk.
func (d *Dir) Fetch(ctx context.Context, src Source, name string, p Policy) (*Release, error) {
	s := &patched{own: d, from: src, policy: p}
	r, err := Open(ctx, s, name, p)
	if err != nil || !s.asked {
		return r, err
	}
	if err := d.keep(ctx, r); err != nil {
		return nil, fmt.Errorf("keeping release %s: %w", name, err)
	}
	return r, nil
}

// patched is a directory that takes missing content from another source.
type patched struct {
	own      *Dir
	from     Source
	policy   Policy
	manifest []byte // once it has been read
	asked    bool   // from was asked for anything
}

func (s *patched) Manifest(ctx context.Context, name string) (text []byte, err error) {
	if text, err = s.own.Manifest(ctx, name); err != nil || hasDigest(text, name) != nil {
		s.asked = true
		text, err = s.from.Manifest(ctx, name)
	}
	s.manifest = text
	return text, err
}

func (s *patched) Blob(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	if text, err := s.own.Blob(ctx, d); err == nil && hasDigest(text, string(d.Digest)) == nil {
		return text, nil
	}
	s.asked = true
	return s.from.Blob(ctx, d)
}

// Signatures returns those of the directory only if they satisfy the policy: the
// keys may have changed, and the source may have more signatures.
func (s *patched) Signatures(ctx context.Context, name string) ([][]byte, error) {
	if own, err := s.own.Signatures(ctx, name); err == nil {
		if _, err := s.policy.judge(&Release{Digest: name, manifest: s.manifest, signatures: own}); err == nil {
			return own, nil
		}
	}
	s.asked = true
	return s.from.Signatures(ctx, name)
}
