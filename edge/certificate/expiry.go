package certificate

import (
	"crypto/tls"
	"slices"
	"sync/atomic"

	"golang.org/x/crypto/acme"
)

// Expiry remembers when the certificate that was served last expires. The zero
// value has seen none.
type Expiry struct {
	unix atomic.Int64
}

// Watch returns get, and notes what it returns. The answers to an ACME authority's
// own challenges are no certificates of the listener, and are not noted.
func (e *Expiry) Watch(get Get) Get {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		served, err := get(hello)
		challenge := slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto})
		if err == nil && served != nil && served.Leaf != nil && !challenge {
			e.unix.Store(served.Leaf.NotAfter.Unix())
		}
		return served, err
	}
}

// Seconds returns when the certificate expires in seconds since 1970, 0 if none was
// served.
func (e *Expiry) Seconds() float64 { return float64(e.unix.Load()) }
