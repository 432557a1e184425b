package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"partneredge/store"
)

// try is one attempt at a delivery.
type try struct {
	queue   *queue
	item    *item
	target  *target
	secrets []string

	lane    *lane // it has a place in; nil: it has moved
	started time.Time
	hung    bool // for SlowAfter or longer
	done    bool
}

// result of a try.
type result struct {
	attempt    store.Attempt
	retryAfter string
	ok         bool // a 2xx answer
	abandoned  bool // the sender stopped: the delivery counts as not tried
}

// attempt begins the record of the try, with the headers that are sent.
func (t *try) attempt() store.Attempt {
	a := store.Attempt{
		ID:         store.NewAttemptID(t.item.ID, t.started),
		DeliveryID: t.item.ID,
		Number:     t.item.Attempts + 1,
		StartedAt:  t.started.UTC().Truncate(time.Microsecond),
	}
	message := Message{EventID: t.item.EventID, EventType: t.item.EventType, Body: t.item.Body}
	a.Headers = message.Headers(a.ID, t.started, t.secrets...)
	return a
}

func (t *try) request(ctx context.Context, headers map[string]string) *http.Request {
	// Also for a connection that turns out to be closed before anything of the
	// request was taken from it.
	body := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(t.item.Body)), nil }
	first, _ := body()
	return (&http.Request{
		Method: http.MethodPost,
		URL:    t.target.url,
		Host:   t.target.url.Host,
		Header: httpHeader(headers),

		ContentLength: int64(len(t.item.Body)),
		Body:          first,
		GetBody:       body,
	}).WithContext(ctx)
}

// send sends the delivery and waits for the answer, at most for c.Timeout. Any
// 2xx status acknowledges, whatever becomes of the body.
func (t *try) send(ctx context.Context, transport http.RoundTripper, c *Config) (r result) {
	r.attempt = t.attempt()
	if t.target.reason != "" {
		r.attempt.Error = (&RefusedError{Reason: t.target.reason, Detail: "target_url"}).Error()
		return r
	}
	if len(t.secrets) == 0 {
		r.attempt.Error = "the signing secret cannot be opened"
		return r
	}
	limited, cancel := context.WithTimeout(context.WithValue(ctx, tryKey{}, new(atomic.Int32)), c.Timeout)
	defer cancel()
	// Not http.Client: it would follow redirects.
	response, err := transport.RoundTrip(t.request(limited, r.attempt.Headers))
	r.attempt.Latency = time.Since(t.started)
	if err != nil {
		timedOut := errors.Is(limited.Err(), context.DeadlineExceeded)
		r.abandoned = !timedOut && ctx.Err() != nil
		r.attempt.Error = describe(err, timedOut, c.Timeout)
		return r
	}
	r.attempt.Status = response.StatusCode
	r.ok = response.StatusCode >= 200 && response.StatusCode <= 299
	r.retryAfter = response.Header.Get("Retry-After")
	if response.ContentLength == 0 {
		_ = response.Body.Close()
	} else {
		r.attempt.Excerpt = readExcerpt(response.Body, c.bodyTime, cancel)
	}
	if response.StatusCode >= 300 && response.StatusCode <= 399 {
		r.attempt.Error = "redirects are not followed"
	}
	return r
}

// readExcerpt keeps the beginning of a body and reads a bounded part of the
// rest, so that the connection can be used again; more than that closes it, as
// does reading that has taken for longer than most.
func readExcerpt(body io.ReadCloser, most time.Duration, cancel context.CancelFunc) string {
	defer body.Close()
	timer := time.AfterFunc(most, cancel)
	defer timer.Stop()
	kept, err := io.ReadAll(io.LimitReader(body, ExcerptMost))
	if err == nil {
		_, _ = io.CopyN(io.Discard, body, drainMost)
	}
	return string(kept)
}

// describe returns an error's text for the delivery log, without control characters.
func describe(err error, timedOut bool, timeout time.Duration) string {
	switch refused, ok := errors.AsType[*RefusedError](err); {
	case ok:
		return refused.Error()
	case timedOut:
		return "no answer within " + timeout.String()
	}
	// It may quote what the endpoint sent, such as names in its certificate.
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, err.Error())
	if len(text) > 512 {
		text = strings.ToValidUTF8(text[:512], "")
	}
	return text
}
