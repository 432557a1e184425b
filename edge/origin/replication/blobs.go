package replication

import (
	"context"
	"errors"
	"fmt"

	"partneredge/edge/origin/registry"
	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/store"
)

// blob gives a node some of a part of a release, or of its manifest.
func (r *requests) blob(ctx context.Context, _ string, req wire.BlobRequest) (wire.Message, error) {
	reply := new(wire.BlobReply)
	if release.CheckDigest(req.Digest) != nil || req.Offset < 0 {
		return reply, fmt.Errorf("%w: a part at %d", store.ErrInvalid, req.Offset)
	}
	manifest, err := r.DB.Manifest(ctx, req.Digest)
	if err == nil {
		reply.Size = int64(len(manifest.Content))
		rest := manifest.Content[min(req.Offset, reply.Size):]
		reply.Data = rest[:min(len(rest), wire.MaxBlobChunk)]
		return reply, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return reply, err
	}
	if reply.Size, err = r.DB.BlobSize(ctx, req.Digest); err != nil {
		return reply, err
	}
	reply.Data, err = r.DB.ReadBlob(ctx, req.Digest, req.Offset, wire.MaxBlobChunk)
	return reply, err
}

// signatures gives a node those of a release.
func (r *requests) signatures(ctx context.Context, _ string, req wire.SignaturesRequest) (wire.Message, error) {
	reply := new(wire.SignaturesReply)
	if release.CheckDigest(req.Digest) != nil {
		return reply, fmt.Errorf("%w: signatures of no digest", store.ErrInvalid)
	}
	var err error
	reply.Signatures, err = registry.Source(r.DB).Signatures(ctx, req.Digest)
	return reply, err
}
