// Package signature signs webhook deliveries and verifies them.
//
// A delivery carries the header
//
//	X-Svc-Signature: t=<unix seconds>,v1=<64 hex digits>
//
// where v1 is the HMAC-SHA256, keyed with the text of the subscription's
// secret, of "<t>.<raw body>". While a secret is being rotated the header has
// one v1 for each secret in force.
//
// The package has no dependencies, so a receiver can import it alone:
//
//	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
//	...
//	err = signature.Verify(r.Header.Get(signature.Header), body,
//		signature.DefaultTolerance, time.Now(), secret)
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Header names the header that carries the signature.
const Header = "X-Svc-Signature"

// DefaultTolerance is how far a delivery's time may be from the receiver's.
const DefaultTolerance = 5 * time.Minute

// Why a signature is not accepted.
var (
	ErrMalformed = errors.New("signature: header lacks t or v1")
	ErrTooOld    = errors.New("signature: time outside the tolerance")
	ErrMismatch  = errors.New("signature: no v1 matches")
)

// Limits of a header that is looked at, far beyond what a sender makes.
const (
	maxHeader = 4096
	maxV1     = 16
)

// Sign returns the header's value for a body sent at t: one v1 for each secret,
// in their order.
func Sign(t time.Time, body []byte, secrets ...string) string {
	unix := strconv.AppendInt(nil, t.Unix(), 10)
	out := make([]byte, 0, len("t=")+len(unix)+len(secrets)*(len(",v1=")+2*sha256.Size))
	out = append(append(out, "t="...), unix...)
	for _, secret := range secrets {
		out = append(out, ",v1="...)
		out = hex.AppendEncode(out, mac(unix, body, secret))
	}
	return string(out)
}

// Verify returns nil when header signs body with one of secrets, at a time no
// further than tolerance from now. It takes the five steps of the contract:
// read t and v1 from the header, reject when either is missing, reject a t
// outside the tolerance, compute the signature over the raw body, compare in
// constant time. Other fields of the header are left alone.
//
// Errors: ErrMalformed, ErrTooOld, ErrMismatch.
func Verify(header string, body []byte, tolerance time.Duration, now time.Time, secrets ...string) error {
	t, sums, err := parse(header)
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(t, 10, 64)
	if err != nil || unix < 0 {
		return ErrMalformed
	}
	if age := now.Unix() - unix; age > int64(tolerance/time.Second) || -age > int64(tolerance/time.Second) {
		return ErrTooOld
	}
	// Every pair is compared, whichever matches, so that the time taken says
	// nothing about which secret is in force.
	matched := false
	for _, secret := range secrets {
		want := mac([]byte(t), body, secret)
		for _, sum := range sums {
			if hmac.Equal(want, sum) {
				matched = true
			}
		}
	}
	if !matched {
		return ErrMismatch
	}
	return nil
}

// parse returns the text of t, and every v1 that could be a SHA-256.
func parse(header string) (t string, sums [][]byte, err error) {
	if len(header) > maxHeader {
		return "", nil, ErrMalformed
	}
	seen := 0
	for field := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "t":
			if t != "" {
				return "", nil, ErrMalformed // which of them was signed?
			}
			t = value
		case "v1":
			if seen++; seen > maxV1 {
				return "", nil, ErrMalformed
			}
			if sum, err := hex.DecodeString(value); err == nil && len(sum) == sha256.Size {
				sums = append(sums, sum)
			}
		}
	}
	if t == "" || seen == 0 {
		return "", nil, ErrMalformed
	}
	return t, sums, nil
}

func mac(unix, body []byte, secret string) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write(unix)
	h.Write([]byte{'.'})
	h.Write(body)
	return h.Sum(nil)
}
