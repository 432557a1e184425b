package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// streamed is one server-sent event of the admin API (WHATWG HTML, 9.2).
type streamed struct {
	id, name string
	data     []byte
}

// Bounds of following.
const (
	followLine  = 4 << 20          // bytes of one line
	followQuiet = 40 * time.Second // without a sign of life the stream is given up
	followFirst = 500 * time.Millisecond
	followMost  = 10 * time.Second // between two tries to connect
)

// follow reads a stream of the admin API, and begins again where it was when it
// ends, until ctx does: that is no error. A refusal is one, and so is an admin API
// that cannot be reached at first. lost is told of each end that was not due.
func (c *adminClient) follow(ctx context.Context, path string, each func(streamed) error, lost func(error, time.Duration)) error {
	last, reached, wait := "", false, followFirst
	for {
		began := time.Now()
		err := c.stream(ctx, path, last, func(at string) {
			reached, last = true, cmp.Or(last, at)
		}, func(s streamed) error {
			if s.id != "" {
				last = s.id
			}
			return each(s)
		})
		var refused *adminError
		var failed *eachError
		switch {
		case errors.As(err, &failed):
			return failed.error
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused) && refused.status/100 == 4 && refused.status != http.StatusTooManyRequests, !reached:
			return err
		}
		if time.Since(began) > followMost {
			wait = followFirst
		}
		if err != nil {
			lost(err, wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, followMost)
	}
}

// eachError is of who reads the stream, not of the stream.
type eachError struct{ error }

// stream reads one stream to its end. open is told when it began, by the
// origin's clock, which is what to go on from before the first event.
func (c *adminClient) stream(ctx context.Context, path, last string, open func(at string), each func(streamed) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(followQuiet, func() { cancel(fmt.Errorf("nothing heard for %s", followQuiet)) })
	defer quiet.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/admin/v1"+path, nil)
	if err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	client := c.http
	client.Timeout = 0 // it is to go on
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return &adminError{http.MethodGet, path, resp.StatusCode, string(body)}
	}
	at := ""
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		at = date.UTC().Format(time.RFC3339)
	}
	open(at)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, followLine)
	var s streamed
	for lines.Scan() {
		quiet.Reset(followQuiet)
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			s.id = value
		case "event":
			s.name = value
		case "data":
			s.data = []byte(value)
		case "":
			if s.data != nil {
				if err := each(s); err != nil {
					return &eachError{err}
				}
			}
			s = streamed{}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("admin API: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}
