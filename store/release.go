package store

import "time"

// Release is a signed set of modules for nodes to run. The record is not trusted:
// each node verifies what it runs itself.
type Release struct {
	ID      string          `json:"id"` // rel_
	Version string          `json:"version"`
	Digest  string          `json:"digest"` // of its OCI manifest
	Size    int64           `json:"size"`   // bytes of all parts
	Modules []ReleaseModule `json:"modules"`
	Signers []ReleaseSigner `json:"signers"`

	CreatedAt time.Time `json:"created_at"`
}

// ReleaseModule is one module of a release.
type ReleaseModule struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes of wasm
}

// ReleaseSigner is a key that signed a release, and its trusted comment.
type ReleaseSigner struct {
	KeyID   string `json:"key_id"`
	Comment string `json:"comment"`
}

// Manifest is the OCI manifest of a release or of a signature.
type Manifest struct {
	Digest       string
	MediaType    string
	ArtifactType string
	Subject      string // digest of the manifest that a signature signs; "" none
	Content      []byte
}
