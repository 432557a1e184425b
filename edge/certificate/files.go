package certificate

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// FilesConfig configures Files. Every field is required.
type FilesConfig struct {
	// Cert and Key are PEM files.
	Cert, Key string
	// Log gets one line for each change of the files.
	Log *slog.Logger
	Now func() time.Time
}

// readAgain is the least time before the files are read again, for a new connection or
// an Expiry that watches them.
const readAgain = time.Second

// Files provides a certificate that is in two files with its key. Connections made
// after the files have changed get the new certificate. While the two files do not
// match, they get the old one.
type Files struct {
	FilesConfig

	mu      sync.Mutex
	pair    *tls.Certificate
	content []byte // the last of the files, valid or not
	checked time.Time
}

// Open reads the files, which must be valid.
func Open(c FilesConfig) (*Files, error) {
	f := &Files{FilesConfig: c, checked: c.Now()}
	var err error
	if f.pair, f.content, err = f.read(); err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	return f, nil
}

// Get implements tls.Config.GetCertificate.
func (f *Files) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current(), nil }

// current returns the certificate for a connection that is made now.
func (f *Files) current() *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.Now(); now.Sub(f.checked).Abs() >= readAgain {
		f.checked = now
		f.check()
	}
	return f.pair
}

// check reads the files again and uses them if they have changed. mu is held.
func (f *Files) check() {
	pair, content, err := f.read()
	if bytes.Equal(content, f.content) {
		return
	}
	f.content = content
	if err != nil {
		f.Log.Error("the new certificate is not used, the old one stays", "cert", f.Cert, "key", f.Key, "err", err)
		return
	}
	f.pair = pair
	f.Log.Info("a new certificate is used", "cert", f.Cert, "until", pair.Leaf.NotAfter)
}

// read returns the certificate and the content of the files. With an error, the
// content identifies the failure.
func (f *Files) read() (pair *tls.Certificate, content []byte, err error) {
	cert, certErr := os.ReadFile(f.Cert)
	key, keyErr := os.ReadFile(f.Key)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, []byte(err.Error()), err
	}
	made, err := tls.X509KeyPair(cert, key)
	return &made, bytes.Join([][]byte{cert, key}, []byte{0}), err
}
