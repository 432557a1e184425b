package signature_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"partneredge/edge/webhook/signature"
)

// TestVerifyBounds tries what lies just within the rules of a header, and just
// beyond.
func TestVerifyBounds(t *testing.T) {
	good := signature.Sign(at, body, secret)
	v1 := good[strings.Index(good, ",v1="):]
	epoch := time.Unix(0, 0)
	for _, c := range []struct {
		name, header string
		now          time.Time
		want         error
	}{
		{"as many v1 as may be", "t=1700000000" + strings.Repeat(",v1=00", 15) + v1, at, nil},
		{"one v1 more", "t=1700000000" + strings.Repeat(",v1=00", 16) + v1, at, signature.ErrMalformed},
		{"as long as may be", good + strings.Repeat(" ", 4096-len(good)), at, nil},
		{"a byte longer", good + strings.Repeat(" ", 4097-len(good)), at, signature.ErrMalformed},
		{"at the epoch", signature.Sign(epoch, body, secret), epoch, nil},
		{"junk after the digits", good + "zz", at, signature.ErrMismatch},
		{"digits after the digits", good + "00", at, signature.ErrMismatch},
	} {
		if err := signature.Verify(c.header, body, signature.DefaultTolerance, c.now, secret); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
