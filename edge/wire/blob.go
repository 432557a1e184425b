package wire

// MaxBlobChunk bounds the part of a blob that one reply holds, in bytes.
const MaxBlobChunk = 1 << 20

// BlobRequest asks for the bytes of a release's blob, or of its manifest, from
// Offset on. Digest is "sha256:" and 64 hexadecimal digits.
type BlobRequest struct {
	Head
	Digest string `json:"digest"`
	Offset int64  `json:"offset"`
}

// BlobReply holds the bytes at the offset: at least one and at most
// MaxBlobChunk, or none if the offset is at the end, which is Size. The failure
// is NotFound if the origin has no such blob. The node trusts none of it before
// it has verified digest and signature.
type BlobReply struct {
	Head
	Size int64  `json:"size"`
	Data []byte `json:"data,omitempty"`
}

// SignaturesRequest asks for the signatures of the release whose manifest has
// this digest.
type SignaturesRequest struct {
	Head
	Digest string `json:"digest"`
}

// SignaturesReply holds the signatures in minisign's format; empty if there are
// none.
type SignaturesReply struct {
	Head
	Signatures [][]byte `json:"signatures,omitempty"`
}
