package certificate

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// Expiry remembers when the certificates of a listener expire. The zero value has seen
// none.
type Expiry struct {
	mu    sync.Mutex
	files *Files               // nil: none
	until map[string]time.Time // by host
}

// WatchFiles returns f.Get. When the certificate expires is read of the files themselves
// then, since it may be long until the next handshake reads them.
func (e *Expiry) WatchFiles(f *Files) Get {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.files = f
	return f.Get
}

// Watch returns get, and notes what it returns for hosts: the certificate that was served
// last for each of them, and for no other host. A host whose certificate get
// does not return keeps the one before, and without one counts as expired. The answers to
// an ACME authority's own challenges are no certificates of the listener, and are not noted.
func (e *Expiry) Watch(get Get, hosts ...string) Get {
	allowed := autocert.HostWhitelist(hosts...)
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		served, err := get(hello)
		host := strings.ToLower(hello.ServerName)
		if allowed(context.Background(), host) == nil && !slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) {
			e.note(host, served, err)
		}
		return served, err
	}
}

// note notes what get returned for a host.
func (e *Expiry) note(host string, served *tls.Certificate, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.until == nil {
		e.until = make(map[string]time.Time)
	}
	if _, known := e.until[host]; err != nil && !known {
		e.until[host] = time.Now()
	}
	if err == nil && served != nil && served.Leaf != nil {
		e.until[host] = served.Leaf.NotAfter
	}
}

// Seconds returns when the first of the certificates expires in seconds since 1970, 0 if
// there are no files and none was asked for.
func (e *Expiry) Seconds() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.files != nil {
		return float64(e.files.current().Leaf.NotAfter.Unix())
	}
	first := int64(0)
	for _, until := range e.until {
		if first == 0 || until.Unix() < first {
			first = until.Unix()
		}
	}
	return float64(first)
}
