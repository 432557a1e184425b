package console

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"partneredge/edge/adminapi"
)

// Times and bounds of live pages.
const (
	maxStreams   = 64
	streamsOfOne = maxStreams / 2 // of whoever has logged in, so that nobody takes all of them
	streamEvery  = 2 * time.Second
	streamTime   = 10 * time.Minute // until the page reconnects
)

// live returns what sends the live part of a page every two seconds, as server-sent
// events (WHATWG HTML, 9.2), until the page or its session ends.
func (c *Console) live(p page) func(http.ResponseWriter, *visit) {
	return func(w http.ResponseWriter, v *visit) {
		leave, ok := c.streams.Take(v.session.who.ID)
		if !ok {
			w.Header().Set("Retry-After", "10")
			http.Error(w, "too many live pages", http.StatusServiceUnavailable)
			return
		}
		defer leave()
		w.Header().Set("Content-Type", "text/event-stream")
		tick, end := time.Tick(streamEvery), time.After(streamTime)
		for {
			select {
			case <-tick:
			case <-end:
				return
			case <-v.Context().Done():
				return
			case <-c.closed:
				return
			}
			if c.sessions.find(v.Request, false) == nil {
				return
			}
			if err := c.sendLive(w, v, p); err != nil {
				if refused, ok := errors.AsType[*adminapi.Error](err); ok && refused.Status == http.StatusUnauthorized {
					c.sessions.close(v.session) // or each reconnection would present the token again
				}
				c.cfg.Log.Debug("live page", "err", err)
				return
			}
		}
	}
}

// sendLive sends the live part of a page once, with the token of its forms.
func (c *Console) sendLive(w http.ResponseWriter, v *visit, p page) error {
	shown, err := p(v)
	if err != nil {
		return err
	}
	shown.Who, shown.CSRF = &v.session.who, v.session.csrf
	var html bytes.Buffer
	if err := c.pages[shown.page].ExecuteTemplate(&html, "live", shown); err != nil {
		c.cfg.Log.Error("cannot render a live page", "page", shown.page, "err", err)
		return err
	}
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(w, liveEvent(html.String())); err != nil {
		return err
	}
	return control.Flush()
}

// liveEvent returns the event that brings a page its live part. A carriage return ends a
// line of an event as well: it would end the event's data, in a text that a node sent.
func liveEvent(html string) string {
	lines := strings.NewReplacer("\r\n", "\ndata: ", "\n", "\ndata: ", "\r", "\ndata: ")
	return "event: live\ndata: " + lines.Replace(html) + "\n\n"
}
