// Package release packs, signs, verifies and stores releases. A release is a set of
// modules with their manifests that nodes run: it has a version and is signed by an
// operator.
//
// A release is an OCI image manifest. Its config is JSON that names the version
// and the modules. Each module is two layers, its wasm and its manifest. The
// same modules under the same version are the same bytes, so the digest of the
// OCI manifest identifies a release, wherever it was packed.
//
//	manifest   artifactType application/vnd.partneredge.release.v1
//	  config   application/vnd.partneredge.release.config.v1+json
//	           {"version":"1.4.0","modules":["agents","gate"]}
//	  layer 0  application/wasm                       agents.wasm
//	  layer 1  application/vnd.partneredge.module.manifest.v1+json  agents.json
//	  layer 2  application/wasm                       gate.wasm
//	  …
//
// A signature is made by minisign over the bytes of the manifest. It is an OCI
// referrer: another image manifest, whose subject is the release and whose one
// layer is the text that `minisign` writes. Its trusted comment names the version
// and the digest.
//
// Open reads a release and does not trust its Source. Before it parses the manifest,
// it checks that the manifest has the digest asked for and is signed by a key of the
// Policy. Then it checks that every blob has the digest and the size that the
// manifest names.
package release

import (
	"errors"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Media types.
const (
	ArtifactType       = "application/vnd.partneredge.release.v1"
	SignatureType      = "application/vnd.partneredge.signature.minisign.v1"
	ConfigType         = "application/vnd.partneredge.release.config.v1+json"
	WasmType           = "application/wasm"
	ModuleManifestType = "application/vnd.partneredge.module.manifest.v1+json"
)

// Bounds of a release, all but MaxModules and MaxSignatures in bytes.
const (
	MaxModules    = 64
	MaxWasm       = 64 << 20  // one module
	MaxManifest   = 1 << 20   // an OCI manifest, a config, the manifest of a module
	MaxSize       = 256 << 20 // all blobs together
	MaxSignature  = 4 << 10
	MaxSignatures = 16 // of one release that are considered
)

// Reasons why a release is refused. Every error of Open is one of these or an error
// of the Source.
var (
	// ErrUnsigned means that it has no signature.
	ErrUnsigned = errors.New("the release is not signed")
	// ErrWrongKey means that no signature is by a trusted key.
	ErrWrongKey = errors.New("the release is not signed by a trusted key")
	// ErrTampered means that its content, or a signature, is not what was signed.
	ErrTampered = errors.New("the release was changed after it was signed")
	// ErrTruncated means that a blob is shorter than its size.
	ErrTruncated = errors.New("the release is cut short")
	// ErrDowngrade means that its version is lower than Policy.Min.
	ErrDowngrade = errors.New("the release is older than the least that is allowed")
	// ErrMalformed means that it is no release, or exceeds a bound.
	ErrMalformed = errors.New("not a release")
	// ErrNotFound means that the Source lacks the release or one of its blobs.
	ErrNotFound = errors.New("no such release")
)

// Release is a release whose content has been verified.
type Release struct {
	Version string // such as 1.4.0
	Digest  string // of the OCI manifest: sha256: and 64 hexadecimal digits
	Modules []Module
	Signers []Signer // after Open only the trusted ones

	descriptor ocispec.Descriptor
	manifest   []byte
	config     blob
	signatures [][]byte
}

// Module is a module of a release.
type Module struct {
	Name     string
	Wasm     []byte
	Manifest []byte // JSON

	wasm, described ocispec.Descriptor
}

// Digest returns the digest of Wasm. For a module of a release it is known already.
func (m *Module) Digest() string {
	if m.wasm.Digest != "" {
		return string(m.wasm.Digest)
	}
	return string(digest.FromBytes(m.Wasm))
}

// Size returns the size of Wasm, in bytes.
func (m *Module) Size() int64 {
	if m.wasm.Digest != "" {
		return m.wasm.Size
	}
	return int64(len(m.Wasm))
}

// blob is content with its descriptor.
type blob struct {
	ocispec.Descriptor
	bytes []byte
}

// blobs returns everything but the manifest.
func (r *Release) blobs() []blob {
	all := []blob{r.config}
	for _, m := range r.Modules {
		all = append(all, blob{m.wasm, m.Wasm}, blob{m.described, m.Manifest})
	}
	return all
}

// Size returns the size of the release, in bytes.
func (r *Release) Size() (sum int64) {
	for _, b := range r.blobs() {
		sum += b.Size
	}
	return sum + int64(len(r.manifest))
}
