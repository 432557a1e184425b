package release

import (
	"encoding/json"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Artifact is what an OCI manifest of this package's says of itself.
type Artifact struct {
	Type    string               // ArtifactType or SignatureType
	Subject string               // digest of the release that a signature is of
	Parts   []ocispec.Descriptor // of a signature first minisign's text; the config last
}

// Describe reads the OCI manifest of a release or of a signature. Anything else
// is ErrMalformed.
func Describe(manifest []byte) (Artifact, error) {
	var kind struct {
		ArtifactType string `json:"artifactType"`
	}
	if err := json.Unmarshal(manifest, &kind); err != nil {
		return Artifact{}, malformed("the manifest: %v", err)
	}
	if kind.ArtifactType != SignatureType {
		m, err := readManifest(manifest)
		return Artifact{Type: m.ArtifactType, Parts: append(m.Layers, m.Config)}, err
	}
	m, layer, err := readSignatureManifest(manifest)
	if err != nil {
		return Artifact{}, err
	}
	return Artifact{m.ArtifactType, string(m.Subject.Digest), []ocispec.Descriptor{layer, m.Config}}, nil
}
