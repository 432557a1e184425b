package release

import (
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"
)

// TestEachDigitOfADigestCounts: content whose digest differs from the one asked for in one
// hexadecimal digit, wherever that is, is other content.
func TestEachDigitOfADigestCounts(t *testing.T) {
	text := []byte("content")
	right := digest.FromBytes(text)
	if err := hasDigest(text, right.String()); err != nil {
		t.Fatal(err)
	}
	for i := range right.Encoded() {
		hex := []byte(right.Encoded())
		if hex[i]++; hex[i] == 'g' || hex[i] == ':' {
			hex[i] = '0'
		}
		if err := hasDigest(text, digest.NewDigestFromEncoded(digest.SHA256, string(hex)).String()); !errors.Is(err, ErrTampered) {
			t.Errorf("digit %d differs: %v", i, err)
		}
	}
}

// TestNothingIsReadBeforeTheSignature: of a release that nobody trusted has signed, only
// the manifest and the signatures are asked for.
func TestNothingIsReadBeforeTheSignature(t *testing.T) {
	s, trusted := newLayout(t), newPair(t)
	name := s.pack("1.4.0")
	for _, want := range []error{ErrUnsigned, ErrWrongKey} {
		src := &asked{Source: OCI(s)}
		_, err := Open(t.Context(), src, name, trusting(trusted))
		if wants(t, err, want); len(src.blobs) != 1 || string(src.blobs[0]) != name {
			t.Errorf("asked for %v", src.blobs)
		}
		s.sign(name, newPair(t))
	}
}
