package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// Copy copies a release and its signatures from one registry or layout to another,
// and returns the descriptor of its manifest. Whoever may push to the source can attach
// what no origin takes for a signature: Copy leaves that out, and returns how many were.
// It calls begin with the size of the release without its signatures. It calls what
// begin returns, from several goroutines, with the size of each blob that has been copied.
func Copy(ctx context.Context, from oras.ReadOnlyGraphTarget, to oras.Target, name string, begin func(total int64) (copied func(size int64))) (root ocispec.Descriptor, leftOut int, err error) {
	manifest, err := OCI(from).Manifest(ctx, name)
	if err != nil {
		return root, 0, fmt.Errorf("reading release %s: %w", name, err)
	}
	artifact, err := Describe(manifest)
	if err == nil && artifact.Type != ArtifactType {
		err = ErrMalformed
	}
	if err != nil {
		return root, 0, fmt.Errorf("reading release %s: %w", name, err)
	}
	total := int64(len(manifest))
	for _, p := range artifact.Blobs {
		total += p.Size
	}
	progress := begin(total)
	copied := func(_ context.Context, d ocispec.Descriptor) error {
		progress(d.Size)
		return nil
	}
	root = content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, manifest)
	root.ArtifactType = artifact.Type
	err = oras.ExtendedCopyGraph(ctx, from, to, root, oras.ExtendedCopyGraphOptions{
		FindPredecessors: func(ctx context.Context, from content.ReadOnlyGraphStorage, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
			if d.ArtifactType != ArtifactType {
				return nil, nil
			}
			held, err := referrersOf(ctx, to, d)
			if err != nil {
				return nil, fmt.Errorf("reading the signatures that are there: %w", err)
			}
			signatures, others, err := signaturesOf(ctx, from, d, held)
			leftOut = others
			return signatures, err
		},
		CopyGraphOptions: oras.CopyGraphOptions{PostCopy: copied, OnCopySkipped: copied, MaxMetadataBytes: 2 * MaxManifest},
	})
	if err != nil {
		return root, 0, fmt.Errorf("copying release %s: %w", name, err)
	}
	return root, leftOut, nil
}

// referrersOf returns the digests of what refers to a release where it is copied to, none if
// that cannot tell.
func referrersOf(ctx context.Context, to oras.Target, d ocispec.Descriptor) ([]digest.Digest, error) {
	finder, ok := to.(content.PredecessorFinder)
	if !ok {
		return nil, nil
	}
	var held []digest.Digest
	referrers, err := finder.Predecessors(ctx, d)
	for _, one := range referrers {
		held = append(held, one.Digest)
	}
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	return held, err
}

// signaturesOf returns the signatures among the referrers of a release that an origin takes,
// and how many others call themselves signatures. More than MaxSignatures, with those that it
// holds, are an error: it would keep any of them, and perhaps not the one that counts. The
// filter of oras takes the media type of an image manifest's config for its artifact type.
func signaturesOf(ctx context.Context, from content.ReadOnlyGraphStorage, d ocispec.Descriptor, held []digest.Digest) (signatures []ocispec.Descriptor, others int, err error) {
	named := len(held)
	referrers, err := from.Predecessors(ctx, d)
	if err != nil {
		return nil, 0, err
	}
	for _, one := range referrers {
		if !mayBeSignature(one) {
			continue
		}
		manifest, err := content.FetchAll(ctx, from, one)
		if isUnlike(err) {
			others++
			continue
		} else if err != nil {
			return nil, 0, err
		}
		m, layer, err := readSignatureManifest(manifest)
		if err != nil {
			continue // another referrer
		}
		text, err := content.FetchAll(ctx, from, layer)
		if err != nil && !isUnlike(err) {
			return nil, 0, err
		}
		if err != nil || !content.Equal(*m.Subject, d) || CheckSignature(text, string(d.Digest)) != nil {
			others++
			continue
		}
		if !slices.Contains(held, one.Digest) {
			named++
		}
		one.ArtifactType = SignatureType
		signatures = append(signatures, one)
	}
	if named > MaxSignatures {
		return nil, 0, fmt.Errorf("%d signatures name it, of which %d are kept: remove those at its source that are not yours", named, MaxSignatures)
	}
	return signatures, others, nil
}

// isUnlike reports whether err is of content that is not there, or not as its descriptor says.
func isUnlike(err error) bool {
	return slices.ContainsFunc([]error{errdef.ErrNotFound, content.ErrMismatchedDigest, content.ErrInvalidDescriptorSize, content.ErrTrailingData, io.ErrUnexpectedEOF},
		func(one error) bool { return errors.Is(err, one) })
}
