// Package certificate provides the certificates of TLS listeners: from files that
// may be replaced while the program runs, or from an ACME authority.
package certificate

import "crypto/tls"

// Get returns the certificate for a new connection, see
// tls.Config.GetCertificate.
type Get func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// HTTPS returns the configuration of a listener for HTTP/2 and HTTP/1.1 that
// accepts TLS 1.3 only.
func HTTPS(get Get) *tls.Config {
	return &tls.Config{
		GetCertificate: get,
		MinVersion:     tls.VersionTLS13,
		NextProtos:     []string{"h2", "http/1.1"},
	}
}
