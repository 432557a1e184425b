package adminapi

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"partneredge/edge/backoff"
)

// Event is one server-sent event of a stream (WHATWG HTML, 9.2).
type Event struct {
	ID, Name string // "": none
	Data     []byte
}

// Times and bounds of streams.
const (
	maxEventLine   = 4 << 20          // bytes
	streamSilence  = 40 * time.Second // a stream without a line for this long is dead
	firstReconnect = 500 * time.Millisecond
	maxReconnect   = 10 * time.Second
)

// Follow calls handle with each event of a stream, and reconnects after the last
// event when the stream ends. It returns nil once ctx is done, and otherwise the
// error of handle, of a first connection that failed, or an *Error with a status
// 4xx other than 429. Before it reconnects after a failure it calls lost with the
// error and the time that it waits.
//
// A stream that goes on may repeat events.
func (c *Client) Follow(ctx context.Context, path string, handle func(Event) error, lost func(err error, wait time.Duration)) error {
	s := stream{client: c, path: path, handle: handle}
	delays := backoff.New(firstReconnect, maxReconnect)
	for {
		began := time.Now()
		err := s.read(ctx)
		if failed, ok := errors.AsType[*handleError](err); ok {
			return failed.error
		}
		if ctx.Err() != nil {
			return nil
		}
		refused, ok := errors.AsType[*Error](err)
		switch {
		case s.connected && ok && s.place != "" && refused.Reason == "last_event_id_invalid":
			s.place = "" // the origin predates places: ask it without one
		case !s.connected || ok && refused.Status/100 == 4 && refused.Status != http.StatusTooManyRequests:
			return err
		}
		if time.Since(began) > maxReconnect {
			delays.Reset()
		}
		wait := delays.Next()
		if err != nil {
			lost(err, wait)
		}
		if backoff.Pause(ctx, wait) != nil {
			return nil
		}
	}
}

// handleError sets an error of handle apart from those of the stream.
type handleError struct{ error }

// stream is a stream through all its connections.
type stream struct {
	client    *Client
	path      string
	handle    func(Event) error
	last      string // event, or the time when the stream began that had none
	place     string // where it was told to begin; "": it had an event since
	connected bool   // at least once
}

// read reads one connection to its end. A stream that ends before its first event
// goes on from the place where it began, or from the time, by the origin's clock.
func (s *stream) read(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(streamSilence, func() { cancel(fmt.Errorf("nothing heard for %s", streamSilence)) })
	defer silence.Stop()
	header := http.Header{"Accept": {"text/event-stream"}}
	if last := cmp.Or(s.place, s.last); last != "" {
		header.Set("Last-Event-ID", last)
	}
	resp, err := s.client.patient().send(ctx, http.MethodGet, s.path, nil, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s.connected = true
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil && s.last == "" {
		s.last = date.UTC().Format(time.RFC3339)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	var event Event
	for lines.Scan() {
		silence.Reset(streamSilence)
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			event.ID = value
		case "event":
			event.Name = value
		case "data":
			event.Data = []byte(value)
		case "":
			if event.Data == nil {
				s.place = cmp.Or(event.ID, s.place)
			} else {
				if event.ID != "" {
					s.last, s.place = event.ID, ""
				}
				if err := s.handle(event); err != nil {
					return &handleError{err}
				}
			}
			event = Event{}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("admin API: %w", errors.Join(err, context.Cause(ctx)))
	}
	return nil
}
