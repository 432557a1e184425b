package node

import (
	"crypto/tls"
	"strings"
	"testing"
)

// TestOldTLSIsRefused offers the partner API the versions of TLS one by one; the
// last alone is accepted.
func TestOldTLSIsRefused(t *testing.T) {
	o := newOrigin(t)
	c := config(t, o)
	roots := selfSigned(t, &c)
	n := startNode(t, c)
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(n.URL(), "https://"),
			&tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
		if err == nil {
			_ = conn.Close()
		}
		if want := version == tls.VersionTLS13; (err == nil) != want {
			t.Errorf("%s: %v, want it accepted: %t", tls.VersionName(version), err, want)
		}
	}
}
