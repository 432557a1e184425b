package admin

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"
)

// Times and bounds of streams.
const (
	maxStreams   = 64
	streamBeat   = 10 * time.Second // between two signs of life
	streamMost   = 10 * time.Minute // then the client asks again
	streamWrite  = 10 * time.Second // for one write
	retryStreams = 5 * time.Second  // until a place may be free
)

// message is one server-sent event (WHATWG HTML, 9.2). Data holds no line ends.
type message struct {
	id, name string // "": none
	data     []byte
}

// stream is a body that goes on until ctx ends, or what it tells of does. send
// reports that the client is gone.
type stream func(ctx context.Context, send func(...message) error) error

// streamed answers with a stream, once there is a place for it. ?seconds bounds
// how long it goes on.
func (a *api) streamed(r *http.Request, s stream) (answer, error) {
	last := streamMost
	if text := r.URL.Query().Get("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || time.Duration(n)*time.Second > streamMost {
			return answer{}, &problem{Kind: kindParameter, Reason: "seconds_invalid", Detail: "seconds must be from 1 to 600"}
		}
		last = time.Duration(n) * time.Second
	}
	select {
	case a.streams <- struct{}{}:
	default:
		return answer{}, &problem{Kind: kindLimited, Detail: "too many streams", retryAfter: retryStreams}
	}
	return ok(stream(func(ctx context.Context, send func(...message) error) error {
		ctx, cancel := context.WithTimeout(ctx, last)
		defer cancel()
		stop := context.AfterFunc(a.running, cancel) // a listener that ends waits for its streams
		defer stop()
		return s(ctx, send)
	}))
}

// writeStream sends a stream, and gives its place back.
func (a *api) writeStream(w http.ResponseWriter, r *http.Request, s stream) {
	defer func() { <-a.streams }()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // of proxies
	control := http.NewResponseController(w)
	send := func(all ...message) error {
		var b bytes.Buffer
		for _, m := range all {
			if m.id != "" {
				b.WriteString("id: " + m.id + "\n")
			}
			if m.name != "" {
				b.WriteString("event: " + m.name + "\n")
			}
			b.WriteString("data: ")
			b.Write(m.data)
			b.WriteString("\n\n")
		}
		if len(all) == 0 {
			b.WriteString(":\n\n") // a comment: a sign of life
			if _, err := a.actor(r); err != nil {
				return err // the token was revoked
			}
		}
		if err := control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
			return err
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
		return control.Flush()
	}
	if err := send(); err != nil { // the header, at once
		return
	}
	if err := s(r.Context(), send); err != nil && r.Context().Err() == nil {
		a.Log.Debug("a stream ended", "route", r.Pattern, "err", err)
	}
}
