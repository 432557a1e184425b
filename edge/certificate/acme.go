package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// ACMEConfig configures ACME.
type ACMEConfig struct {
	// Hosts are the names to request certificates for. Required.
	Hosts []string
	// Dir holds the account's key and the certificates, with mode 0700. Required.
	Dir string
	// URL is the authority's directory. Default: Let's Encrypt.
	URL string
	// CA is a PEM file with the issuer of the directory's own certificate. Default:
	// the authorities that the system trusts.
	CA string
	// Email is the address that the authority notifies of expiring certificates.
	// Default: none.
	Email string
}

// ACME returns the configuration of HTTPS with certificates from an ACME authority.
// A certificate is requested when a connection first names its host, kept, and
// renewed 30 days before it expires. The authority verifies the name over this
// listener itself (TLS-ALPN-01, RFC 8737), which it must reach at port 443 of
// each host.
func ACME(c ACMEConfig) (*tls.Config, error) {
	if len(c.Hosts) == 0 || c.Dir == "" {
		return nil, errors.New("ACME: Hosts and Dir are required")
	}
	client := &acme.Client{DirectoryURL: c.URL}
	if c.URL == "" {
		client.DirectoryURL = autocert.DefaultACMEDirectory
	}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ACME: read its authority: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ACME: read its authority: no certificate in %s", c.CA)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		client.HTTPClient = &http.Client{Transport: transport}
	}
	// A folder that cannot be created is reported now, not at the first connection.
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("ACME: %w", err)
	}
	manager := &autocert.Manager{
		Prompt:     autocert.AcceptTOS,
		Cache:      autocert.DirCache(c.Dir),
		HostPolicy: autocert.HostWhitelist(c.Hosts...),
		Client:     client,
		Email:      c.Email,
	}
	config := HTTPS(manager.GetCertificate)
	config.NextProtos = append(config.NextProtos, acme.ALPNProto)
	return config, nil
}
