// Package certificatetest makes certificates for tests.
package certificatetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Pair returns a certificate of a host, a name or an IP address, and its key, in PEM.
// The certificate is its own authority, and expires in an hour.
func Pair(t testing.TB, serial int64, host string) (cert, key []byte) {
	t.Helper()
	return PairUntil(t, serial, host, time.Now().Add(time.Hour))
}

// PairUntil is Pair with the time at which the certificate expires. It began an hour ago.
func PairUntil(t testing.TB, serial int64, host string, until time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// Write writes a new pair for 127.0.0.1 to cert.pem and key.pem of a directory.
func Write(t testing.TB, dir string) (certFile, keyFile string) {
	t.Helper()
	cert, key := Pair(t, 1, "127.0.0.1")
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, text := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// Roots returns a pool with the certificate of a file.
func Roots(t testing.TB, certFile string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return roots
}

// OnlyTLS13 offers a server the versions of TLS one by one. The last alone must be
// accepted.
func OnlyTLS13(t testing.TB, address string, roots *x509.CertPool) {
	t.Helper()
	for version := uint16(tls.VersionTLS10); version <= tls.VersionTLS13; version++ {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, MinVersion: version, MaxVersion: version})
		if err == nil {
			_ = conn.Close()
		}
		if want := version == tls.VersionTLS13; (err == nil) != want {
			t.Errorf("%s: %v, want it accepted: %t", tls.VersionName(version), err, want)
		}
	}
}
