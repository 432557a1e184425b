package registry

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"partneredge/edge/release"
	"partneredge/store"
	"partneredge/store/central"
)

// Source returns the releases of a database as a source for package release.
func Source(s *central.DB) release.Source { return source{s} }

type source struct{ store *central.DB }

func (s source) Manifest(ctx context.Context, digest string) ([]byte, error) {
	m, err := s.store.Manifest(ctx, digest)
	return m.Content, missing(err)
}

func (s source) Blob(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	text := make([]byte, 0, d.Size)
	for int64(len(text)) < d.Size {
		more, err := s.store.ReadBlob(ctx, string(d.Digest), int64(len(text)), int(min(d.Size-int64(len(text)), chunkSize)))
		if err != nil {
			return nil, missing(err)
		}
		if len(more) == 0 {
			break
		}
		text = append(text, more...)
	}
	return text, nil
}

func (s source) Signatures(ctx context.Context, digest string) (all [][]byte, err error) {
	found, err := s.store.Referrers(ctx, digest, release.MaxSignatures)
	if err != nil {
		return nil, err
	}
	for _, m := range found {
		artifact, err := release.Describe(m.Content)
		if err != nil || artifact.Type != release.SignatureType {
			continue
		}
		text, err := s.Blob(ctx, artifact.Blobs[0])
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// missing maps an error of package store to one of package release.
func missing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %w", release.ErrNotFound, err)
	}
	return err
}
