package origin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
)

func adminStreams(w *world) {
	account := w.account("setup")
	tail, events := "/admin/v1/deliveries/tail", accounts+"/"+account+"/events"
	bearer := "Bearer " + w.Token()
	status, header, text := w.send("GET", tail+"?seconds=1", nil, bearer)
	if status != 200 || header.Get("Content-Type") != "text/event-stream" || !strings.Contains(string(text), "event: try\ndata: {\"subscription_id\":\"whs_x\"") {
		w.Errorf("tail answered %d %s", status, text)
	}
	if status, _, text := w.send("GET", events+"?seconds=1&types=sentinel.fired,goal.pace_changed", nil, bearer); status != 200 || string(text) != ":\n\n" {
		w.Errorf("events answered %d %q", status, text)
	}
	for _, path := range []string{tail, events} {
		for _, seconds := range []string{"0", "-1", "601", "x"} {
			w.refused(400, "seconds_invalid", "GET", path+"?seconds="+seconds, nil)
		}
	}
	var open []*followed
	for range 64 {
		open = append(open, w.follow(events, ""))
	}
	for _, path := range []string{tail, events} {
		w.refused(429, "rate_limited", "GET", path, nil)
	}
	for _, f := range open {
		f.end()
	}
	w.eventually("streams are taken again", func() bool {
		status, _, _ := w.send("GET", events+"?seconds=1", nil, bearer)
		return status == 200
	})
	w.refused(400, "types_invalid", "GET", events+"?types=sentinel.fired,nonsense", nil)
	w.refused(400, "types_invalid", "GET", events+"?types=", nil)
	w.refused(400, "since_invalid", "GET", events+"?since=yesterday", nil)
	w.refused(400, "since_too_old", "GET", events+"?since=2026-01-01T00:00:00Z", nil)
	w.refused(404, "not_found", "GET", none+"/events", nil)
}

// followed is a stream that a test reads.
type followed struct {
	w     *world
	lines chan string // closed at its end
	end   context.CancelFunc
}

func (w *world) follow(path, last string) *followed {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", w.AdminURL()+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.Token())
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		w.Fatal(resp, err)
	}
	f := &followed{w, make(chan string, 10_000), cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(f.lines)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			f.lines <- s.Text()
		}
	}()
	w.Cleanup(func() { cancel(); <-ended })
	return f
}

// next is the id, name and data of the next event.
func (f *followed) next() (id, name, data string) {
	f.w.Helper()
	for {
		line := next(f.w, f.lines, "line of the stream")
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			return id, name, value
		}
	}
}

// The feed gives each event once, whatever the order in which they are
// committed, goes on from where it was left, and shows only the account's.
func TestFollowEvents(t *testing.T) {
	w := begin(t)
	account, other := w.account("setup"), w.account("live")
	fire := func(account string) string {
		return w.must(201, "POST", accounts+"/"+account+"/sentinel-firings",
			object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})["event_id"].(string)
	}
	begun := time.Now().Add(-time.Second)
	early := fire(account)
	all := w.follow(accounts+"/"+account+"/events?since="+begun.UTC().Format(time.RFC3339), "")
	typed := w.follow(accounts+"/"+account+"/events?types=client.contacted", "")
	want := []string{early}
	for range 30 {
		fire(other)
		want = append(want, fire(account))
	}
	contact := w.must(201, "POST", accounts+"/"+account+"/contacts", object{"client_id": "c", "channel": "sms"})["event_id"].(string)
	want = append(want, contact)
	var got []string
	for range want {
		id, name, data := all.next()
		var envelope struct {
			ID, Type string
			Account  string `json:"account_id"`
		}
		if err := json.Unmarshal([]byte(data), &envelope); err != nil || envelope.ID != id || envelope.Type != name || envelope.Account != account {
			t.Errorf("event %s %s: %s %v", id, name, data, err)
		}
		if kept, err := w.config.DB.Event(t.Context(), id); err != nil || string(kept.Body) != data {
			t.Errorf("event %s is another than is delivered: %v", id, err)
		}
		got = append(got, id)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if id, name, _ := typed.next(); id != contact || name != store.EventClientContacted {
		t.Errorf("of one type: %s %s", name, id)
	}
	all.end()
	if status, _, text := w.send("GET", accounts+"/"+account+"/events", nil, "Bearer "+w.Token(), "Last-Event-ID", "nonsense"); status != 400 || !strings.Contains(string(text), "last_event_id_invalid") {
		t.Errorf("a place that is none: %d %s", status, text)
	}
	timed := w.follow(accounts+"/"+account+"/events", begun.UTC().Format(time.RFC3339))
	if id, _, _ := timed.next(); id != early {
		t.Errorf("from a time on, first is %s, want %s", id, early)
	}
	later := []string{fire(account), fire(account)}
	again := w.follow(accounts+"/"+account+"/events", contact)
	for seen := 0; seen < len(later); {
		switch id, _, _ := again.next(); {
		case slices.Contains(later, id):
			seen++
		case id == contact || id == early:
			t.Errorf("after %s came %s again", contact, id) // but what was made in its millisecond may
		}
	}
}

// A stream does not keep an origin from stopping.
func TestStreamsEndWithTheOrigin(t *testing.T) {
	w := begin(t)
	f := w.follow("/admin/v1/deliveries/tail", "")
	next(w, f.lines, "first sign of life")
	w.stop()
	w.eventually("the stream ends", func() bool {
		select {
		case _, more := <-f.lines:
			return !more
		default:
			return false
		}
	})
}
