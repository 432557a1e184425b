package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"partneredge/edge/webhook"
	"partneredge/store"
)

// postTime bounds the wait for a receiver's answer, as the webhook sender does.
const postTime = 10 * time.Second

// excerptMost bounds what is kept of a receiver's answer, in bytes.
const excerptMost = 4 << 10

// poster posts signed events to a developer's own program. It refuses no address: the
// webhook sender's guard keeps partners out of the service's network, and this is the
// developer's.
type poster struct{ http *http.Client }

// newPoster makes a poster that follows no redirect and asks no proxy, as the webhook
// sender.
func newPoster() *poster {
	return &poster{&http.Client{
		Timeout:       postTime,
		Transport:     &http.Transport{Proxy: nil, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (p *poster) close() { p.http.CloseIdleConnections() }

// try is one post of an event.
type try struct {
	id      string // dlv_…
	at      time.Time
	headers map[string]string
}

// newTry signs a message as of now.
func newTry(m webhook.Message, secret string) try {
	at := time.Now()
	id := store.NewID("dlv", at)
	return try{id, at, m.Headers(id, at, secret)}
}

// posted holds the answer to a try, or why there is none.
type posted struct {
	Status     *int // nil without an answer
	Latency    time.Duration
	Answer     string // its first bytes
	Error      string // why there is no answer
	retryAfter string
}

func (r posted) ok() bool { return r.Status != nil && *r.Status/100 == 2 }

// milliseconds returns the latency as JSON shows it.
func (r posted) milliseconds() float64 { return float64(r.Latency.Microseconds()) / 1000 }

// post sends a try to an URL.
func (p *poster) post(ctx context.Context, to string, m webhook.Message, t try) (r posted) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(m.Body))
	if err != nil {
		r.Error = withoutURL(err)
		return r
	}
	for name, value := range t.headers {
		req.Header.Set(name, value)
	}
	began := time.Now()
	resp, err := p.http.Do(req)
	r.Latency = time.Since(began)
	if err != nil {
		r.Error = withoutURL(err)
		return r
	}
	defer resp.Body.Close()
	excerpt, _ := io.ReadAll(io.LimitReader(resp.Body, excerptMost)) // the status is what counts
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))     // so that the connection is used again
	r.Status, r.retryAfter = &resp.StatusCode, resp.Header.Get("Retry-After")
	r.Answer = strings.ToValidUTF8(string(excerpt), "\uFFFD")
	return r
}

// withoutURL describes an error of a request without the method and the URL that
// it begins with.
func withoutURL(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		if of.Timeout() && !errors.Is(err, os.ErrDeadlineExceeded) {
			return "no answer within " + postTime.String()
		}
		return of.Err.Error()
	}
	return err.Error()
}
