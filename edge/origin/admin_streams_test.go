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

func adminStreams(f *fixture) {
	account := f.account("setup")
	tail, events := "/admin/v1/deliveries/tail", accounts+"/"+account+"/events"
	bearer := "Bearer " + f.Token()
	status, header, text := f.send("GET", tail+"?seconds=1", nil, bearer)
	if status != 200 || header.Get("Content-Type") != "text/event-stream" {
		f.Errorf("tail answered %d %s", status, text)
	}
	if status, _, text := f.send("GET", events+"?seconds=1&types=sentinel.fired,goal.pace_changed", nil, bearer); status != 200 || string(text) != ":\n\nid: 0\n\n" {
		f.Errorf("events answered %d %q", status, text)
	}
	for _, path := range []string{tail, events} {
		for _, seconds := range []string{"0", "-1", "601", "x"} {
			f.mustRefuse(400, "seconds_invalid", "GET", path+"?seconds="+seconds, nil)
		}
	}
	var open []*sseClient
	for range 32 {
		open = append(open, f.openStream(events, ""))
	}
	for _, path := range []string{tail, events} {
		f.mustRefuse(429, "rate_limited", "GET", path, nil)
	}
	_, viewer := f.token(store.RoleViewer)
	if status, _, _ := f.send("GET", events+"?seconds=1", nil, "Bearer "+viewer); status != 200 {
		f.Errorf("somebody else's stream beside all that one may have: %d", status)
	}
	for _, stream := range open {
		stream.end()
	}
	f.eventually("streams are taken again", func() bool {
		status, _, _ := f.send("GET", events+"?seconds=1", nil, bearer)
		return status == 200
	})
	if _, name, data := f.openStream(tail, "").next(); name != "try" || !strings.HasPrefix(data, `{"subscription_id":"whs_x"`) {
		f.Errorf("the tail tells of a %s %s", name, data)
	}
	f.mustRefuse(400, "types_invalid", "GET", events+"?types=sentinel.fired,nonsense", nil)
	f.mustRefuse(400, "types_invalid", "GET", events+"?types=", nil)
	f.mustRefuse(400, "since_invalid", "GET", events+"?since=yesterday", nil)
	f.mustRefuse(400, "since_too_old", "GET", events+"?since=2026-01-01T00:00:00Z", nil)
	// A client that reconnects says its since again, however long ago it began.
	if status, _, text := f.send("GET", events+"?seconds=1&since=2026-01-01T00:00:00Z", nil, bearer, "Last-Event-ID", "0"); status != 200 || string(text) != ":\n\nid: 0\n\n" {
		f.Errorf("going on from a place, with an old since: %d %q", status, text)
	}
	f.mustRefuse(404, "not_found", "GET", none+"/events", nil)
}

// sseClient is a stream that a test reads.
type sseClient struct {
	f     *fixture
	lines chan string // closed at its end
	end   context.CancelFunc
}

// openStream opens an event stream, after the event last unless that is "".
func (f *fixture) openStream(path, last string) *sseClient {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", f.AdminURL()+path, nil)
	if err != nil {
		f.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.Token())
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		f.Fatal(resp, err)
	}
	stream := &sseClient{f, make(chan string, 10_000), cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(stream.lines)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			stream.lines <- s.Text()
		}
	}()
	f.Cleanup(func() { cancel(); <-ended })
	return stream
}

// next is the id, name and data of the next event.
func (stream *sseClient) next() (id, name, data string) {
	stream.f.Helper()
	for {
		line := next(stream.f, stream.lines, "line of the stream")
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
	t.Parallel()
	f := newFixture(t)
	account, other := f.account("setup"), f.account("live")
	fire := func(account string) string {
		return f.must(201, "POST", accounts+"/"+account+"/sentinel-firings",
			object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})["event_id"].(string)
	}
	begun := time.Now().Add(-time.Second)
	early := fire(account)
	all := f.openStream(accounts+"/"+account+"/events?since="+begun.UTC().Format(time.RFC3339), "")
	typed := f.openStream(accounts+"/"+account+"/events?types=client.contacted", "")
	want := []string{early}
	for range 30 {
		fire(other)
		want = append(want, fire(account))
	}
	contact := f.must(201, "POST", accounts+"/"+account+"/contacts", object{"client_id": "c", "channel": "sms"})["event_id"].(string)
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
		if kept, err := f.config.DB.Event(t.Context(), id); err != nil || string(kept.Body) != data {
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
	if status, _, text := f.send("GET", accounts+"/"+account+"/events", nil, "Bearer "+f.Token(), "Last-Event-ID", "nonsense"); status != 400 || !strings.Contains(string(text), "last_event_id_invalid") {
		t.Errorf("a place that is none: %d %s", status, text)
	}
	timed := f.openStream(accounts+"/"+account+"/events", begun.UTC().Format(time.RFC3339))
	if id, _, _ := timed.next(); id != early {
		t.Errorf("from a time on, first is %s, want %s", id, early)
	}
	lost := f.openStream(accounts+"/"+account+"/events", store.NewID("evt", begun.Add(time.Second*30))) // of a clock that was ahead
	if id, _, _ := lost.next(); id != early {
		t.Errorf("from an event on that the database has lost, first is %s, want %s", id, early)
	}
	later := []string{fire(account), fire(account)}
	again := f.openStream(accounts+"/"+account+"/events", contact)
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
	t.Parallel()
	f := newFixture(t)
	stream := f.openStream("/admin/v1/deliveries/tail", "")
	next(f, stream.lines, "first sign of life")
	f.stop()
	f.eventually("the stream ends", func() bool {
		select {
		case _, more := <-stream.lines:
			return !more
		default:
			return false
		}
	})
}
