package release

import (
	"encoding/json"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Artifact describes a release or a signature by its OCI manifest.
type Artifact struct {
	Type    string               // ArtifactType or SignatureType
	Version string               // as an annotation says, which may say anything
	Subject string               // digest of the release that a signature is of
	Blobs   []ocispec.Descriptor // the config is last; of a signature, minisign's text is first
}

// Describe parses the OCI manifest of a release or of a signature. The error is
// ErrMalformed for any other manifest.
func Describe(manifest []byte) (Artifact, error) {
	var kind struct {
		ArtifactType string `json:"artifactType"`
	}
	if err := json.Unmarshal(manifest, &kind); err != nil {
		return Artifact{}, malformed("the manifest: %v", err)
	}
	if kind.ArtifactType != SignatureType {
		m, err := readManifest(manifest)
		return Artifact{Type: m.ArtifactType, Version: m.Annotations[ocispec.AnnotationVersion], Blobs: append(m.Layers, m.Config)}, err
	}
	m, layer, err := readSignatureManifest(manifest)
	if err != nil {
		return Artifact{}, err
	}
	return Artifact{m.ArtifactType, m.Annotations[ocispec.AnnotationVersion], string(m.Subject.Digest), []ocispec.Descriptor{layer, m.Config}}, nil
}
