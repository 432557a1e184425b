package origin

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"

	"partneredge/edge/certificate/certificatetest"
)

// TestOldTLSIsRefused offers the admin API the versions of TLS one by one; the
// last alone is accepted.
func TestOldTLSIsRefused(t *testing.T) {
	cert, key := certificatetest.Write(t, t.TempDir())
	f := newFixture(t, func(c *Config) { c.AdminCert, c.AdminKey = cert, key })
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(f.AdminURL(), "https://"),
			&tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
		if err == nil {
			_ = conn.Close()
		}
		if want := version == tls.VersionTLS13; (err == nil) != want {
			t.Errorf("%s: %v, want it accepted: %t", tls.VersionName(version), err, want)
		}
	}
}
