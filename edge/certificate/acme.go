package certificate

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/net/idna"
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
	// Log gets a warning a minute for each host that has no certificate or whose
	// certificate is not renewed in time, with the reason. Required.
	Log *slog.Logger
}

// ACME returns the configuration of HTTPS with certificates from an ACME authority.
// A certificate is requested when a connection first names its host, kept, and renewed
// when a third of its time is left, 30 days at most. The authority verifies the name over
// this listener itself (TLS-ALPN-01, RFC 8737), which it must reach at port 443 of each
// host. A handshake waits for a certificate as long as its context lasts; the
// request goes on without it, so its failure is logged.
func ACME(c ACMEConfig) (*tls.Config, error) {
	if len(c.Hosts) == 0 || c.Dir == "" {
		return nil, errors.New("ACME: Hosts and Dir are required")
	}
	from := &transport{base: http.DefaultTransport}
	client := &acme.Client{DirectoryURL: cmp.Or(c.URL, autocert.DefaultACMEDirectory), HTTPClient: &http.Client{Transport: from}}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ACME: read its authority: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ACME: read its authority: no certificate in %s", c.CA)
		}
		base := http.DefaultTransport.(*http.Transport).Clone()
		base.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
		from.base = base
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
	get, err := awaited(manager.GetCertificate, c.Hosts, from.warnings(c.Log))
	if err != nil {
		return nil, err
	}
	config := HTTPS(get)
	config.NextProtos = append(config.NextProtos, acme.ALPNProto)
	return config, nil
}

// awaited returns get for hosts, with a wait that ends with the context of the handshake.
// get waits up to five minutes for the authority, whatever becomes of the handshake. It
// goes on in a goroutine of its own then, of which there is one for each host. All ask
// for an ECDSA certificate, which every client of TLS 1.3 takes. autocert orders an RSA one
// for a client that names no suite of TLS 1.2, and others would wait meanwhile for the
// certificate that it holds. warn gets what get returned, also when no handshake waits for
// it any more, and no host but those of hosts.
func awaited(get Get, hosts []string, warn func(host string, served *tls.Certificate, err error)) (Get, error) {
	turns := make(map[string]chan struct{}, len(hosts))
	for _, host := range hosts {
		name, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return nil, fmt.Errorf("ACME: read the host %q: %w", host, err)
		}
		turns[name] = make(chan struct{}, 1)
	}
	type result struct {
		served *tls.Certificate
		err    error
	}
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
			return get(hello) // the authority asks for what is held, which others wait for
		}
		name, err := idna.Lookup.ToASCII(hello.ServerName)
		turn, ours := turns[name]
		if err != nil || !ours {
			return nil, fmt.Errorf("ACME: get a certificate for %q: not one of the hosts", hello.ServerName)
		}
		ecdsa := &tls.ClientHelloInfo{ServerName: hello.ServerName, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
		done := make(chan result, 1)
		select {
		case turn <- struct{}{}:
			go func() {
				defer func() { <-turn }()
				served, err := get(ecdsa)
				warn(name, served, err)
				done <- result{served, err}
			}()
		case <-hello.Context().Done():
		}
		select {
		case r := <-done:
			return r.served, r.err
		case <-hello.Context().Done():
			return nil, fmt.Errorf("ACME: get a certificate for %q: %w", hello.ServerName, hello.Context().Err())
		}
	}, nil
}
