package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"
)

// OCI is a Source over an OCI store: a registry, or a layout on disk. It must
// resolve digests.
func OCI(target oras.ReadOnlyGraphTarget) Source { return ociSource{target} }

type ociSource struct{ target oras.ReadOnlyGraphTarget }

func (s ociSource) Manifest(ctx context.Context, digest string) ([]byte, error) {
	d, err := s.target.Resolve(ctx, digest)
	if err != nil {
		return nil, foreign(err)
	}
	if d.Size > MaxManifest {
		return nil, malformed("a manifest of %d bytes", d.Size)
	}
	return s.read(ctx, d, MaxManifest)
}

func (s ociSource) Blob(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	return s.read(ctx, d, d.Size)
}

func (s ociSource) Signatures(ctx context.Context, digest string) (all [][]byte, err error) {
	release, err := s.target.Resolve(ctx, digest)
	if err != nil {
		return nil, foreign(err)
	}
	found, err := s.target.Predecessors(ctx, release)
	if err != nil {
		return nil, foreign(err)
	}
	for _, d := range found {
		if d.ArtifactType != "" && d.ArtifactType != SignatureType || d.Size > MaxManifest || len(all) == MaxSignatures {
			continue
		}
		manifest, err := s.read(ctx, d, MaxManifest)
		if err != nil {
			return nil, err
		}
		_, layer, err := readSignatureManifest(manifest)
		if err != nil {
			continue // what else refers to it is nobody's signature
		}
		signature, err := s.read(ctx, layer, MaxSignature)
		if err != nil {
			return nil, err
		}
		all = append(all, signature)
	}
	return all, nil
}

// read reads what d names, up to most bytes.
func (s ociSource) read(ctx context.Context, d ocispec.Descriptor, most int64) ([]byte, error) {
	from, err := s.target.Fetch(ctx, d)
	if err != nil {
		return nil, foreign(err)
	}
	text, err := io.ReadAll(io.LimitReader(from, most))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	return text, errors.Join(err, from.Close())
}

// foreign maps an error of the store's to one of this package's.
func foreign(err error) error {
	if errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}

// readSignatureManifest reads the manifest of a signature and returns the layer
// that is minisign's text as well.
func readSignatureManifest(text []byte) (m ocispec.Manifest, layer ocispec.Descriptor, err error) {
	if len(text) > MaxManifest {
		return m, layer, malformed("a manifest of %d bytes", len(text))
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, layer, malformed("the manifest of a signature: %v", err)
	}
	switch {
	case m.MediaType != ocispec.MediaTypeImageManifest || m.ArtifactType != SignatureType || len(m.Layers) != 1:
		return m, layer, malformed("an artifact of type %q is no signature", m.ArtifactType)
	case m.Subject == nil || CheckDigest(string(m.Subject.Digest)) != nil:
		return m, layer, malformed("a signature of nothing")
	case m.Config.Digest != ocispec.DescriptorEmptyJSON.Digest || m.Config.Size != ocispec.DescriptorEmptyJSON.Size:
		return m, layer, malformed("the config of a signature is not empty")
	}
	layer = m.Layers[0]
	if layer.MediaType != SignatureType || CheckDigest(string(layer.Digest)) != nil || layer.Size <= 0 || layer.Size > MaxSignature {
		return m, layer, malformed("a signature of type %q and %d bytes", layer.MediaType, layer.Size)
	}
	return m, layer, nil
}
