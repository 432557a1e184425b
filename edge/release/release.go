// Package release is what nodes are given to run: a set of modules with their
// manifests, under a version, signed by an operator.
//
// A release is an OCI image manifest. Its config is JSON that names the version
// and the modules; each module is two layers, its wasm and its manifest. The
// same modules under the same version are the same bytes, so the digest of the
// OCI manifest names a release, wherever it was packed.
//
//	manifest   artifactType application/vnd.partneredge.release.v1
//	  config   application/vnd.partneredge.release.config.v1+json
//	           {"version":"1.4.0","modules":["agents","gate"]}
//	  layer 0  application/wasm                       agents.wasm
//	  layer 1  application/vnd.partneredge.module.manifest.v1+json  agents.json
//	  layer 2  application/wasm                       gate.wasm
//	  …
//
// A signature is minisign's, over the bytes of the manifest, and refers to it as
// an OCI referrer: another image manifest, whose subject is the release and
// whose one layer is the text that `minisign` writes. Its trusted comment names
// the version and the digest.
//
// Open is what makes a release out of bytes. It takes nothing from a Source on
// trust: the manifest has the digest that was asked for and is signed by one of
// the Policy's keys, before anything in it is read; every part has the digest and
// the size that the manifest names.
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
	MaxSize       = 256 << 20 // all parts together
	MaxSignature  = 4 << 10
	MaxSignatures = 16 // of one release that are looked at
)

// Why a release is refused. Every error of Open is one of these, or the
// Source's own.
var (
	// ErrUnsigned: nobody has signed it.
	ErrUnsigned = errors.New("the release is not signed")
	// ErrWrongKey: none of its signatures is by a key that is trusted.
	ErrWrongKey = errors.New("the release is not signed by a trusted key")
	// ErrTampered: its bytes, or those of a signature, are not what was signed.
	ErrTampered = errors.New("the release was changed after it was signed")
	// ErrTruncated: a part ends before its size.
	ErrTruncated = errors.New("the release is cut short")
	// ErrDowngrade: its version is below the least that is run.
	ErrDowngrade = errors.New("the release is older than the least that is allowed")
	// ErrMalformed: it is no release, or breaks a bound.
	ErrMalformed = errors.New("not a release")
	// ErrNotFound: the Source has no such release, or lacks a part of it.
	ErrNotFound = errors.New("no such release")
)

// Release that has been verified.
type Release struct {
	Version string // such as 1.4.0
	Digest  string // of the OCI manifest: sha256: and 64 hexadecimal digits
	Modules []Module
	Signers []Signer // by whom it is signed; of Open, the trusted ones

	descriptor ocispec.Descriptor
	manifest   []byte
	config     part
	signatures [][]byte
}

// Module of a release.
type Module struct {
	Name     string
	Wasm     []byte
	Manifest []byte // JSON

	wasm, described ocispec.Descriptor
}

// Digest of its wasm. That of a release was verified, and costs nothing.
func (m *Module) Digest() string {
	if m.wasm.Digest != "" {
		return string(m.wasm.Digest)
	}
	return string(digest.FromBytes(m.Wasm))
}

// part is content with its descriptor.
type part struct {
	ocispec.Descriptor
	bytes []byte
}

// parts are everything but the manifest.
func (r *Release) parts() []part {
	all := []part{r.config}
	for _, m := range r.Modules {
		all = append(all, part{m.wasm, m.Wasm}, part{m.described, m.Manifest})
	}
	return all
}

// Size of all parts, in bytes.
func (r *Release) Size() (sum int64) {
	for _, p := range r.parts() {
		sum += p.Size
	}
	return sum + int64(len(r.manifest))
}
