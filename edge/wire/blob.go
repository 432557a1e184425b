package wire

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

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

// A release has megabytes of blobs, so a BlobReply is written and read like changes are:
// encoding/json takes most of its time to look for the end of the text.

func (m *BlobReply) appendFast(b []byte) (_ []byte, ok bool) {
	if m.Failure != "" || m.Trace != "" {
		return b, false
	}
	b = slices.Grow(b, 64+base64.StdEncoding.EncodedLen(len(m.Data)))
	b = strconv.AppendInt(append(b, `{"v":`...), int64(m.V), 10)
	b = strconv.AppendInt(append(b, `,"size":`...), m.Size, 10)
	if len(m.Data) > 0 {
		b = append(base64.StdEncoding.AppendEncode(append(b, `,"data":"`...), m.Data), '"')
	}
	return append(b, '}'), true
}

func (m *BlobReply) parseFast(text string) bool {
	s := scanner{rest: text}
	m.V = s.version()
	s.literal(`,"size":`)
	m.Size = s.number()
	if s.has(`,"data":"`) {
		m.Data = s.base64()
	}
	s.literal("}")
	return !s.bad && s.rest == ""
}

// base64 reads bytes in base64 and the quote behind them.
func (s *scanner) base64() []byte {
	text, rest, ok := strings.Cut(s.rest, `"`)
	data, err := base64.StdEncoding.DecodeString(text)
	// The decoder ignores line ends, which JSON does not have inside quotes.
	if !ok || err != nil || strings.ContainsRune(text, '\n') || strings.ContainsRune(text, '\r') {
		s.bad = true
		return nil
	}
	s.rest = rest
	return data
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
