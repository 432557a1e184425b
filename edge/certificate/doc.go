// Package certificate gives TLS listeners their certificate: from files that
// may be replaced while the program runs, or from an ACME authority.
package certificate

import "crypto/tls"

// Get is how a listener asks for the certificate of a new connection; see
// tls.Config.GetCertificate.
type Get func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// HTTPS is for a listener of HTTP/2 and HTTP/1.1 that takes TLS 1.3 only.
func HTTPS(get Get) *tls.Config {
	return &tls.Config{
		GetCertificate: get,
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{"h2", "http/1.1"},
	}
}
