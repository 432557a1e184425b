package wire

// MaxBlobChunk is the most of a blob that one answer holds, in bytes.
const MaxBlobChunk = 1 << 20

// BlobRequest asks for a part of a release, or for its manifest, from an offset
// on. Digest is "sha256:" and 64 hexadecimal digits.
type BlobRequest struct {
	Head
	Digest string `json:"digest"`
	Offset int64  `json:"offset"`
}

// BlobReply holds what comes at the offset: at least a byte and at most
// MaxBlobChunk, and nothing at the end, which is at Size. NotFound when the origin
// has no such content. It proves nothing: the node verifies what it gets.
type BlobReply struct {
	Head
	Size int64  `json:"size"`
	Data []byte `json:"data,omitempty"`
}

// SignaturesRequest asks for the signatures of the release whose manifest has a
// digest.
type SignaturesRequest struct {
	Head
	Digest string `json:"digest"`
}

// SignaturesReply holds them as minisign writes them; none where there are none.
type SignaturesReply struct {
	Head
	Signatures [][]byte `json:"signatures,omitempty"`
}
