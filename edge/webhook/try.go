package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"partneredge/edge/webhook/signature"
	"partneredge/store"
	"partneredge/wasm/targeturl"
)

// target is a subscription's URL, read once.
type target struct {
	raw    string
	url    *url.URL
	reason string // why it may not be called, by its form
}

func newTarget(raw string) *target {
	t := &target{raw: raw}
	if _, _, t.reason = targeturl.Parse(raw); t.reason != "" {
		return t
	}
	var err error
	if t.url, err = url.Parse(raw); err != nil {
		t.reason = targeturl.NotURL
		return t
	}
	t.url.Fragment, t.url.RawFragment = "", ""
	return t
}

const userAgent = "Svc-Webhooks/2"

// try is one attempt at one delivery.
type try struct {
	queue   *queue
	item    *item
	target  *target
	secrets []string

	lane    *lane // whose budget it uses
	started time.Time
	done    bool
}

// result of a try.
type result struct {
	attempt    store.Attempt
	retryAfter string
	ok         bool // a 2xx answer
	late       bool // no answer in time
	abandoned  bool // the sender stopped: as if it had not been tried
}

// make sends the delivery and waits for the answer, at most for timeout. Any
// 2xx status acknowledges, whatever becomes of the body.
func (t *try) make(ctx context.Context, transport http.RoundTripper, timeout time.Duration) (r result) {
	c := &t.item.Claim
	r.attempt = store.Attempt{
		ID:         store.NewID("dlv", t.started),
		DeliveryID: c.ID,
		Number:     c.Attempts + 1,
		StartedAt:  t.started.UTC().Truncate(time.Microsecond),
	}
	unix := strconv.FormatInt(t.started.Unix(), 10)
	signed := signature.Sign(t.started, c.Body, t.secrets...)
	r.attempt.Headers = map[string]string{
		"content-type":      "application/json",
		"user-agent":        userAgent,
		"x-svc-signature":   signed,
		"x-svc-timestamp":   unix,
		"x-svc-event":       c.EventType,
		"x-svc-event-id":    c.EventID,
		"x-svc-delivery-id": r.attempt.ID,
	}
	if t.target.reason != "" {
		r.attempt.Error = (&RefusedError{Reason: t.target.reason, Detail: "target_url"}).Error()
		return r
	}
	if len(t.secrets) == 0 {
		r.attempt.Error = "the signing secret cannot be opened"
		return r
	}
	try, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request := (&http.Request{
		Method: http.MethodPost,
		URL:    t.target.url,
		Host:   t.target.url.Host,
		Header: http.Header{
			"Content-Type":      {"application/json"},
			"User-Agent":        {userAgent},
			"X-Svc-Signature":   {signed},
			"X-Svc-Timestamp":   {unix},
			"X-Svc-Event":       {c.EventType},
			"X-Svc-Event-Id":    {c.EventID},
			"X-Svc-Delivery-Id": {r.attempt.ID},
		},
		ContentLength: int64(len(c.Body)),
		Body:          io.NopCloser(bytes.NewReader(c.Body)),
		// For a connection that turns out to be closed before anything of the
		// request was taken from it.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.Body)), nil },
	}).WithContext(try)
	// Not http.Client: it would follow redirects.
	response, err := transport.RoundTrip(request)
	r.attempt.Latency = time.Since(t.started)
	if err != nil {
		r.late = errors.Is(try.Err(), context.DeadlineExceeded)
		r.abandoned = !r.late && ctx.Err() != nil
		r.attempt.Error = describe(err, r.late, timeout)
		return r
	}
	r.attempt.Status = response.StatusCode
	r.ok = response.StatusCode >= 200 && response.StatusCode <= 299
	r.retryAfter = response.Header.Get("Retry-After")
	r.attempt.Excerpt = readExcerpt(response.Body, cancel)
	if !r.ok && response.StatusCode >= 300 && response.StatusCode <= 399 {
		r.attempt.Error = "redirects are not followed"
	}
	return r
}

// bodyTime is how long the body is waited for once the status is known.
const bodyTime = 2 * time.Second

// readExcerpt keeps the beginning of a body and reads a bounded part of the
// rest, so that the connection can be used again; more than that closes it.
func readExcerpt(body io.ReadCloser, cancel context.CancelFunc) string {
	defer body.Close()
	timer := time.AfterFunc(bodyTime, cancel)
	defer timer.Stop()
	kept := make([]byte, 0, 512)
	for len(kept) < excerptMost {
		if len(kept) == cap(kept) {
			grown := make([]byte, len(kept), min(4*cap(kept), excerptMost))
			copy(grown, kept)
			kept = grown
		}
		n, err := body.Read(kept[len(kept):cap(kept)])
		kept = kept[:len(kept)+n]
		if err != nil {
			return string(kept)
		}
	}
	_, _ = io.CopyN(io.Discard, body, drainMost)
	return string(kept)
}

// describe is an error for the delivery log.
func describe(err error, late bool, timeout time.Duration) string {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case late:
		return "no answer within " + timeout.String()
	}
	text := err.Error()
	if len(text) > 512 {
		text = text[:512]
	}
	return text
}
