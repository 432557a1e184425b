package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/host"
)

// originSource implements release.Source by requests to the origin, chunk by
// chunk. It holds what has arrived until forget, so that a connection that breaks
// costs one chunk. The caller verifies what it gets. It is for one goroutine.
type originSource struct {
	origin  Origin
	timeout time.Duration
	parts   map[string]part // by digest
}

// part holds the beginning of a blob or a manifest that has arrived.
type part struct {
	text []byte
	size int64 // of all of it; 0 before anything has arrived
}

// Manifest implements release.Source.
func (s *originSource) Manifest(ctx context.Context, digest string) ([]byte, error) {
	return s.read(ctx, digest, release.MaxManifest)
}

// Blob implements release.Source.
func (s *originSource) Blob(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	return s.read(ctx, string(d.Digest), d.Size)
}

// Signatures implements release.Source.
func (s *originSource) Signatures(ctx context.Context, digest string) ([][]byte, error) {
	var reply wire.SignaturesReply
	err := s.ask(ctx, wire.VerbSignatures, &wire.SignaturesRequest{Digest: digest}, &reply)
	return reply.Signatures, err
}

// read returns a part of at most most bytes. It asks only for what is missing.
func (s *originSource) read(ctx context.Context, digest string, most int64) ([]byte, error) {
	p := s.parts[digest]
	for p.size == 0 || int64(len(p.text)) < p.size {
		var reply wire.BlobReply
		if err := s.ask(ctx, wire.VerbBlob, &wire.BlobRequest{Digest: digest, Offset: int64(len(p.text))}, &reply); err != nil {
			return nil, err
		}
		switch arrived := int64(len(p.text) + len(reply.Data)); {
		case reply.Size > most || arrived > reply.Size:
			return nil, fmt.Errorf("fetch %s: %w: more than %d bytes", digest, release.ErrTampered, min(reply.Size, most))
		case len(reply.Data) == 0:
			return nil, fmt.Errorf("fetch %s: %w: it ends at %d of %d bytes", digest, release.ErrTruncated, arrived, reply.Size)
		}
		room := int(reply.Size) - len(p.text) // so that megabytes are allocated once
		p = part{append(slices.Grow(p.text, room), reply.Data...), reply.Size}
		s.parts[digest] = p
	}
	return p.text, nil
}

// forget drops what has arrived.
func (s *originSource) forget() { clear(s.parts) }

func (s *originSource) ask(ctx context.Context, verb string, req, reply wire.Message) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := s.origin.Ask(ctx, verb, req, reply)
	if errors.Is(err, host.ErrNotFound) {
		return fmt.Errorf("%w: %w", release.ErrNotFound, err)
	}
	return err
}
