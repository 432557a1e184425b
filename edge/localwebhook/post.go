// Package localwebhook brings webhooks to a program on a developer's own machine: it
// makes samples of events, signs them as the service does, posts them to any address,
// and keeps the secret that it signs with.
package localwebhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"partneredge/edge/webhook"
	"partneredge/store"
)

// Poster posts signed events to a developer's own program. It refuses no address: the
// webhook sender's guard keeps partners out of the service's network, and this is the
// developer's.
type Poster struct{ http *http.Client }

// NewPoster makes a Poster that follows no redirect, asks no proxy, and waits as long as
// the webhook sender.
func NewPoster() *Poster {
	return &Poster{&http.Client{
		Timeout:       webhook.DefaultTimeout,
		Transport:     &http.Transport{Proxy: nil, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes the connections that nothing uses.
func (p *Poster) Close() { p.http.CloseIdleConnections() }

// Try is one post of an event.
type Try struct {
	Message webhook.Message
	ID      string // dlv_…
	At      time.Time
	Headers map[string]string
}

// NewTry signs a message as of a time, with each of secrets that is not "".
func NewTry(m webhook.Message, at time.Time, secrets ...string) Try {
	id := store.NewID("dlv", at)
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return s == "" })
	return Try{m, id, at, m.Headers(id, at, secrets...)}
}

// Outcome holds the answer to a try, or why there is none.
type Outcome struct {
	Status     *int // nil without an answer
	Latency    time.Duration
	Answer     string // its first 4 KiB
	Error      string // why there is no answer
	RetryAfter string // the answer's header
}

// OK reports whether the receiver acknowledged the event.
func (o Outcome) OK() bool { return o.Status != nil && *o.Status/100 == 2 }

// Milliseconds returns the latency as JSON shows it.
func (o Outcome) Milliseconds() float64 { return float64(o.Latency.Microseconds()) / 1000 }

// Post sends a try to an URL.
func (p *Poster) Post(ctx context.Context, to string, t Try) (o Outcome) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(t.Message.Body))
	if err != nil {
		o.Error = withoutURL(err)
		return o
	}
	for name, value := range t.Headers {
		req.Header.Set(name, value)
	}
	began := time.Now()
	resp, err := p.http.Do(req)
	o.Latency = time.Since(began)
	if err != nil {
		o.Error = withoutURL(err)
		return o
	}
	defer resp.Body.Close()
	excerpt, _ := io.ReadAll(io.LimitReader(resp.Body, webhook.ExcerptMost)) // the status is what counts
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))             // so that the connection is used again
	o.Status, o.RetryAfter = &resp.StatusCode, resp.Header.Get("Retry-After")
	o.Answer = strings.ToValidUTF8(string(excerpt), "\uFFFD")
	return o
}

// withoutURL describes an error of a request without the method and the URL that
// it begins with.
func withoutURL(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		if of.Timeout() && !errors.Is(err, os.ErrDeadlineExceeded) {
			return "no answer within " + webhook.DefaultTimeout.String()
		}
		if errors.Is(of.Err, io.EOF) {
			return "the connection was closed without an answer"
		}
		return of.Err.Error()
	}
	return err.Error()
}
