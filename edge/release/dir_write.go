package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// keep writes what is missing of a release: first the blobs, then the manifest.
func (d *Dir) keep(ctx context.Context, r *Release) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range append(r.blobs(), blob{r.descriptor, r.manifest}) {
		if err := ignoreExisting(d.push(one.Descriptor, one.bytes)); err != nil {
			return err
		}
	}
	for _, signature := range r.signatures {
		if _, err := readSignature(signature); err != nil {
			continue // whoever reaches the registry can attach what is none
		}
		if err := attach(ctx, pusher{d}, r.descriptor, signature); err != nil {
			return err
		}
	}
	return d.writeIndex()
}

// push writes content. The error is errdef.ErrAlreadyExists if it is there already,
// undamaged.
func (d *Dir) push(want ocispec.Descriptor, text []byte) error {
	if have, err := d.read(want.Digest, want.Size+1); err == nil && hasDigest(have, string(want.Digest)) == nil {
		return errdef.ErrAlreadyExists
	}
	if err := d.disk.WriteFile(filepath.Join(d.blobs(), want.Digest.Encoded()), text, 0o600); err != nil {
		return err
	}
	d.note(text)
	return nil
}

// pusher lets oras write to a directory. mu must be held.
type pusher struct{ *Dir }

func (p pusher) Push(_ context.Context, want ocispec.Descriptor, from io.Reader) error {
	text, err := content.ReadAll(from, want) // which verifies it
	if err != nil {
		return err
	}
	return p.push(want, text)
}

// Prune removes all releases except those with these digests. It does so as well if the index
// cannot be written, since what is removed makes room on a full disk.
func (d *Dir) Prune(keep ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	wanted := make(map[string]bool)
	maps.DeleteFunc(d.manifests, func(_ digest.Digest, one kept) bool {
		named := one.Digest
		if one.ArtifactType == SignatureType {
			named = one.subject
		}
		if !slices.Contains(keep, string(named)) {
			return true
		}
		for _, blob := range append(one.blobs, one.Descriptor) {
			wanted[blob.Digest.Encoded()] = true
		}
		return false
	})
	err := d.writeIndex()
	files, unread := os.ReadDir(d.blobs())
	err = errors.Join(err, unread)
	for _, file := range files {
		if !wanted[file.Name()] {
			err = errors.Join(err, d.disk.Remove(filepath.Join(d.blobs(), file.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("removing releases: %w", err)
	}
	return nil
}

// writeIndex writes the index of manifests, for other tools.
func (d *Dir) writeIndex() error {
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{},
	}
	for _, name := range slices.Sorted(maps.Keys(d.manifests)) {
		index.Manifests = append(index.Manifests, d.manifests[name].Descriptor)
	}
	return d.write(ocispec.ImageIndexFile, index)
}

func (d *Dir) write(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(filepath.Join(d.path, name)); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return d.disk.WriteFile(filepath.Join(d.path, name), text, 0o600)
}
