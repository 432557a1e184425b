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

// FilesConfig of Files.
type FilesConfig struct {
	// Cert and Key are PEM files. Required.
	Cert, Key string
	// Every is how long what was read is taken as it is, before a new connection
	// has the files read again. Default: 1 s.
	Every time.Duration
	// Log gets one line for each change of the files. Default: none.
	Log *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Files is a certificate and its key in two files. Connections made after they
// have changed get the new certificate; while the new files make no pair, they
// get the old one.
type Files struct {
	FilesConfig

	mu      sync.Mutex
	pair    *tls.Certificate
	judged  []byte // what was read last, good or not
	checked time.Time
}

// Open reads the files, which must be good.
func Open(c FilesConfig) (*Files, error) {
	if c.Every == 0 {
		c.Every = time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	f := &Files{FilesConfig: c, checked: c.Now()}
	var err error
	if f.pair, f.judged, err = f.read(); err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	return f, nil
}

// Get is for tls.Config.GetCertificate.
func (f *Files) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.Now(); now.Sub(f.checked).Abs() >= f.Every {
		f.checked = now
		f.check()
	}
	return f.pair, nil
}

// check takes in files that have changed. mu is held.
func (f *Files) check() {
	pair, read, err := f.read()
	if bytes.Equal(read, f.judged) {
		return
	}
	f.judged = read
	if err != nil {
		f.Log.Error("the new certificate is not used, the old one stays", "cert", f.Cert, "key", f.Key, "err", err)
		return
	}
	f.pair = pair
	f.Log.Info("a new certificate is used", "cert", f.Cert, "until", pair.Leaf.NotAfter)
}

// read returns the pair and all that it was made of; or, with the error, what
// tells one failure from the next.
func (f *Files) read() (pair *tls.Certificate, read []byte, err error) {
	cert, certErr := os.ReadFile(f.Cert)
	key, keyErr := os.ReadFile(f.Key)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, []byte(err.Error()), err
	}
	made, err := tls.X509KeyPair(cert, key)
	return &made, bytes.Join([][]byte{cert, key}, []byte{0}), err
}
