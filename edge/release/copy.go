package release

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
)

// Copy copies a release and its signatures from one registry or layout to another,
// and returns the descriptor of its manifest. Whoever may push to the source can attach
// what no origin takes for a signature: Copy leaves that out, and returns how many were.
// It calls begin with the size of the release without its signatures. It calls what
// begin returns, from several goroutines, with the size of each blob that has been copied.
func Copy(ctx context.Context, from oras.ReadOnlyGraphTarget, to oras.Target, digest string, begin func(total int64) (copied func(size int64))) (root ocispec.Descriptor, leftOut int, err error) {
	manifest, err := OCI(from).Manifest(ctx, digest)
	if err != nil {
		return root, 0, fmt.Errorf("reading release %s: %w", digest, err)
	}
	artifact, err := Describe(manifest)
	if err == nil && artifact.Type != ArtifactType {
		err = ErrMalformed
	}
	if err != nil {
		return root, 0, fmt.Errorf("reading release %s: %w", digest, err)
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
			signatures, others, err := signaturesOf(ctx, from, d)
			leftOut = others
			return signatures, err
		},
		CopyGraphOptions: oras.CopyGraphOptions{PostCopy: copied, OnCopySkipped: copied, MaxMetadataBytes: 2 * MaxManifest},
	})
	if err != nil {
		return root, 0, fmt.Errorf("copying release %s: %w", digest, err)
	}
	return root, leftOut, nil
}

// signaturesOf returns the signatures among the referrers of a release that an origin takes,
// at most MaxSignatures, and how many others call themselves signatures. The filter of oras
// takes the media type of an image manifest's config for its artifact type.
func signaturesOf(ctx context.Context, from content.ReadOnlyGraphStorage, d ocispec.Descriptor) (signatures []ocispec.Descriptor, others int, err error) {
	referrers, err := from.Predecessors(ctx, d)
	if err != nil {
		return nil, 0, err
	}
	for _, one := range referrers {
		if one.Size > MaxManifest || one.ArtifactType != "" && one.ArtifactType != SignatureType {
			continue
		}
		manifest, err := content.FetchAll(ctx, from, one)
		if err != nil {
			return nil, 0, err
		}
		m, layer, err := readSignatureManifest(manifest)
		if err != nil {
			continue // another referrer
		}
		text, err := content.FetchAll(ctx, from, layer)
		if err != nil {
			return nil, 0, err
		}
		if len(signatures) == MaxSignatures || !content.Equal(*m.Subject, d) || CheckSignature(text, string(d.Digest)) != nil {
			others++
			continue
		}
		one.ArtifactType = SignatureType
		signatures = append(signatures, one)
	}
	return signatures, others, nil
}
