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
	// readEvery is the age at which a reading is made anew. It is less than a tick takes, for
	// viewers do not come at even times.
	readEvery  = streamEvery * 3 / 4
	streamTime = 10 * time.Minute // until the page reconnects
)

// live returns what sends the live part of a page every two seconds, as server-sent
// events (WHATWG HTML, 9.2), until the page or its session ends.
func (c *Console) live(p page) func(http.ResponseWriter, *visit) {
	part := newLivePart(p)
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
			if err := c.sendLive(w, v, part); err != nil {
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
func (c *Console) sendLive(w http.ResponseWriter, v *visit, p *livePart) error {
	event, err := p.event(c, v)
	if err != nil {
		return err
	}
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(w, strings.ReplaceAll(event, c.anyCSRF, v.session.csrf)); err != nil {
		return err
	}
	return control.Flush()
}

// livePart is the live part of a page, which is read and rendered once for all who look at it,
// since both take long where there are many nodes. What it shows depends on nothing but the
// viewer's role, and every role may read all of it.
type livePart struct {
	page    page
	reading chan struct{} // holds one while the part is read or rendered
	// Guarded by reading:
	at     time.Time
	data   view
	events map[string]string // by role, with anyCSRF in the forms
}

func newLivePart(p page) *livePart { return &livePart{page: p, reading: make(chan struct{}, 1)} }

// event returns the event that brings the part to a viewer, whose token must still be valid. It
// is at most readEvery old when it is asked for.
func (p *livePart) event(c *Console, v *visit) (string, error) {
	if err := v.get("/whoami", nil); err != nil {
		return "", err
	}
	came := time.Now()
	select {
	case p.reading <- struct{}{}:
		defer func() { <-p.reading }()
	case <-v.Context().Done():
		return "", v.Context().Err()
	}
	if came.Sub(p.at) >= readEvery { // else it is new, or was when this viewer came and waited
		began := time.Now()
		data, err := p.page(v)
		if err != nil {
			return "", err
		}
		p.at, p.data, p.events = began, data, make(map[string]string)
	}
	role := v.session.who.Role
	if event, made := p.events[role]; made {
		return event, nil
	}
	shown := p.data
	shown.Who, shown.CSRF = &v.session.who, c.anyCSRF
	var html bytes.Buffer
	if err := c.pages[shown.page].ExecuteTemplate(&html, "live", shown); err != nil {
		c.cfg.Log.Error("cannot render a live page", "page", shown.page, "err", err)
		return "", err
	}
	p.events[role] = liveEvent(html.String())
	return p.events[role], nil
}

// liveEvent returns the event that brings a page its live part. A carriage return ends a
// line of an event as well: it would end the event's data, in a text that a node sent.
func liveEvent(html string) string {
	lines := strings.NewReplacer("\r\n", "\ndata: ", "\n", "\ndata: ", "\r", "\ndata: ")
	return "event: live\ndata: " + lines.Replace(html) + "\n\n"
}
