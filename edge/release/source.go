package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/errdef"
)

// OCI returns a Source that reads from an OCI store, a registry or a layout on disk,
// which must resolve digests.
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
		if !mayBeSignature(d) || len(all) == MaxSignatures {
			continue
		}
		manifest, err := s.read(ctx, d, MaxManifest)
		if err != nil {
			return nil, err
		}
		_, layer, err := readSignatureManifest(manifest)
		if err != nil {
			continue // another referrer
		}
		signature, err := s.read(ctx, layer, MaxSignature)
		if err != nil {
			return nil, err
		}
		all = append(all, signature)
	}
	return all, nil
}

// read returns the content of d, at most limit bytes.
func (s ociSource) read(ctx context.Context, d ocispec.Descriptor, limit int64) ([]byte, error) {
	if d.Size < 0 { // the index of a layout may say so: anybody may have written it
		return nil, malformed("a size of %d bytes", d.Size)
	}
	from, err := s.target.Fetch(ctx, d)
	if err != nil {
		return nil, foreign(err)
	}
	text, err := readSized(from, d.Size, limit)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	return text, errors.Join(err, from.Close())
}

// readSized reads at most limit bytes, of which size are expected: modules have
// megabytes, which are allocated once.
func readSized(from io.Reader, size, limit int64) ([]byte, error) {
	text := bytes.NewBuffer(make([]byte, 0, min(size, limit)+bytes.MinRead))
	_, err := text.ReadFrom(io.LimitReader(from, limit))
	return text.Bytes(), err
}

// readFile reads at most limit bytes of a file.
func readFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // to open a pipe waits for one who writes to it
		return nil, malformed("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSized(f, info.Size(), limit)
}

// foreign maps an error of the OCI store to one of this package.
func foreign(err error) error {
	if errors.Is(err, errdef.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}

// mayBeSignature reports whether a referrer of a release may be a signature. Not every source
// tells the type.
func mayBeSignature(d ocispec.Descriptor) bool {
	return (d.ArtifactType == "" || d.ArtifactType == SignatureType) && d.Size <= MaxManifest
}

// readSignatureManifest parses the manifest of a signature. layer is minisign's text.
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
