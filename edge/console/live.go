package console

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Times and bounds of the live overview.
const (
	maxStreams  = 64
	streamEvery = 2 * time.Second
	streamTime  = 10 * time.Minute // until the page reconnects
)

// live sends the overview every two seconds, as server-sent events (WHATWG HTML,
// 9.2), until the page or its session ends.
func (c *Console) live(w http.ResponseWriter, v *visit) {
	select {
	case c.streams <- struct{}{}:
		defer func() { <-c.streams }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many live pages", http.StatusServiceUnavailable)
		return
	}
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	end := time.NewTimer(streamTime)
	defer end.Stop()
	for {
		select {
		case <-tick.C:
		case <-end.C:
			return
		case <-v.Context().Done():
			return
		case <-c.closed:
			return
		}
		if c.sessions.find(v.Request, false) == nil {
			return
		}
		data, err := readOverview(v)
		if err != nil {
			c.cfg.Log.Debug("live overview", "err", err)
			return
		}
		var html bytes.Buffer
		if err := c.pages["overview"].ExecuteTemplate(&html, "live", data); err != nil {
			c.cfg.Log.Error("live overview", "err", err)
			return
		}
		if err := control.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return
		}
		text := strings.ReplaceAll(html.String(), "\n", "\ndata: ")
		if _, err := fmt.Fprintf(w, "event: overview\ndata: %s\n\n", text); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}
