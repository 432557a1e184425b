package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"partneredge/edge/logging"
)

// Bounds of what is remembered of an authority's answer, in bytes.
const (
	maxAnswer = 16 << 10 // that is looked into
	maxFault  = 1 << 10  // that is logged
)

// transport sends the requests to an ACME authority, and remembers the last that failed.
// autocert tells nobody why it could not renew a certificate, nor why the authority
// could not verify a name.
type transport struct {
	base  http.RoundTripper
	fault atomic.Pointer[fault]
}

// fault is an answer of an authority that was no success.
type fault struct {
	at   time.Time
	text string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		t.failed("%s: %v", r.URL, err)
		return nil, err
	}
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // who reads on gets the error again
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	var order struct { // or an authorization
		Status      any // in a problem it is a number
		Certificate string
	}
	if resp.StatusCode >= 400 || json.Unmarshal(head, &order) == nil && order.Status == "invalid" {
		answer := strings.Join(strings.Fields(string(head)), " ") // Pebble's and Let's Encrypt's are indented
		t.failed("%s: %s: %s", r.URL, resp.Status, answer[:min(len(answer), maxFault)])
	} else if order.Certificate != "" { // the order has ended well
		t.fault.Store(nil)
	}
	return resp, nil
}

func (t *transport) failed(format string, args ...any) {
	t.fault.Store(&fault{time.Now(), fmt.Sprintf(format, args...)})
}

// warnings returns a function that logs what get returned for a host: once a minute for
// each that there is no certificate, or that it should have been renewed.
func (t *transport) warnings(log *slog.Logger) func(host string, served *tls.Certificate, err error) {
	limited := logging.New(log)
	return func(host string, served *tls.Certificate, err error) {
		message, args := "", []any{"host", host}
		switch {
		case err != nil:
			message, args = "the host gets no certificate by ACME", append(args, "err", err)
		case served.Leaf != nil && overdue(served.Leaf, time.Now()):
			message, args = "the certificate is not renewed by ACME", append(args, "until", served.Leaf.NotAfter)
		default:
			return
		}
		if fault := t.fault.Load(); fault != nil {
			args = append(args, "authority", fault.text, "authority_at", fault.at.UTC())
		}
		limited.Warn(host, message, args...)
	}
}

// overdue reports whether a certificate should have been renewed. autocert begins when a
// third of its time is left, 30 days at most, or up to a tenth of that later.
func overdue(leaf *x509.Certificate, now time.Time) bool {
	left := min(leaf.NotAfter.Sub(leaf.NotBefore)/3, 30*24*time.Hour)
	return leaf.NotAfter.Sub(now) < left*9/10
}
