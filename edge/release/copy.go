package release

import (
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
)

// Copy copies a release and its signatures from one registry or layout to another,
// and returns the descriptor of its manifest. It calls begin with the size of the
// release without its signatures. It calls what begin returns, from several
// goroutines, with the size of each blob that has been copied.
func Copy(ctx context.Context, from oras.ReadOnlyGraphTarget, to oras.Target, digest string, begin func(total int64) (copied func(size int64))) (root ocispec.Descriptor, err error) {
	manifest, err := OCI(from).Manifest(ctx, digest)
	if err != nil {
		return root, fmt.Errorf("reading release %s: %w", digest, err)
	}
	artifact, err := Describe(manifest)
	if err == nil && artifact.Type != ArtifactType {
		err = ErrMalformed
	}
	if err != nil {
		return root, fmt.Errorf("reading release %s: %w", digest, err)
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
		FindPredecessors: signaturesOf,
		CopyGraphOptions: oras.CopyGraphOptions{PostCopy: copied, OnCopySkipped: copied, MaxMetadataBytes: 2 * MaxManifest},
	})
	if err != nil {
		return root, fmt.Errorf("copying release %s: %w", digest, err)
	}
	return root, nil
}

// signaturesOf returns the signatures among the referrers of a release. The filter
// of oras takes the media type of an image manifest's config for its artifact type.
func signaturesOf(ctx context.Context, from content.ReadOnlyGraphStorage, d ocispec.Descriptor) (signatures []ocispec.Descriptor, err error) {
	if d.ArtifactType != ArtifactType {
		return nil, nil
	}
	referrers, err := from.Predecessors(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, one := range referrers {
		if one.Size > MaxManifest || one.ArtifactType != "" && one.ArtifactType != SignatureType {
			continue
		}
		manifest, err := content.FetchAll(ctx, from, one)
		if err != nil {
			return nil, err
		}
		if a, err := Describe(manifest); err == nil && a.Type == SignatureType {
			one.ArtifactType = a.Type
			signatures = append(signatures, one)
		}
	}
	return signatures, nil
}
