package adminapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/adminapi"
)

// script answers each request with the next of its responses.
type script struct {
	responses []response
	asked     []string // Last-Event-ID of each request
	at        []time.Duration
	began     time.Time
}

// response is one connection. It stays open after its body when it hangs.
type response struct {
	status int
	body   string
	err    error
	hangs  bool
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, req.Header.Get("Last-Event-ID"))
	s.at = append(s.at, time.Since(s.began))
	now := s.responses[0]
	s.responses = s.responses[1:]
	if now.err != nil {
		return nil, now.err
	}
	var body io.Reader = strings.NewReader(now.body)
	if now.hangs {
		open, end := io.Pipe()
		context.AfterFunc(req.Context(), func() { _ = end.CloseWithError(req.Context().Err()) })
		body = io.MultiReader(body, open)
	}
	return &http.Response{
		StatusCode: now.status, Body: io.NopCloser(body), Request: req,
		Header: http.Header{"Date": {"Fri, 02 Jan 2026 03:04:05 GMT"}},
	}, nil
}

// follow follows the script's stream, for an hour at most, and returns its events
// and the errors that were reported as lost.
func (s *script) follow(t *testing.T, handle func(adminapi.Event) error) (lost []string, err error) {
	t.Helper()
	s.began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	client := &adminapi.Client{URL: "http://origin", HTTP: &http.Client{Transport: s, Timeout: time.Second}}
	err = client.Follow(ctx, "/deliveries/tail", handle, func(err error, wait time.Duration) {
		if wait < 250*time.Millisecond || wait > 10*time.Second {
			t.Errorf("waits for %v", wait)
		}
		lost = append(lost, err.Error())
	})
	return lost, err
}

func TestFollowReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const comment = ":\n\n"
		s := &script{responses: []response{
			{status: 200, body: comment},
			{status: 200, body: comment + "id: evt_1\nevent: deal\ndata: {\"a\": 1}\n\ndata: 2\n\ndata: cut short"},
			{status: 429},
			{err: errors.New("refused")},
			{status: 200, body: "id: evt_2\ndata: 3\n\n", hangs: true},
			{status: 503, body: `{"error": "internal_error"}`},
			{status: 200, hangs: true},
			{status: 403},
		}}
		var events []string
		lost, err := s.follow(t, func(e adminapi.Event) error {
			events = append(events, e.ID+" "+e.Name+" "+string(e.Data))
			return nil
		})
		if refused, ok := errors.AsType[*adminapi.Error](err); !ok || refused.Status != 403 {
			t.Errorf("ended with %v", err)
		}
		if want := []string{`evt_1 deal {"a": 1}`, "  2", "evt_2  3"}; !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
		if want := []string{"", "2026-01-02T03:04:05Z", "evt_1", "evt_1", "evt_1", "evt_2", "evt_2", "evt_2"}; !slices.Equal(s.asked, want) {
			t.Errorf("asked from %q, want %q", s.asked, want)
		}
		wantLost := []string{
			"admin API: GET /deliveries/tail: status 429",
			`admin API: Get "http://origin/admin/v1/deliveries/tail": refused`,
			"admin API: context canceled\nnothing heard for 40s",
			"admin API: GET /deliveries/tail: status 503: internal_error",
			"admin API: context canceled\nnothing heard for 40s",
		}
		if !slices.Equal(lost, wantLost) {
			t.Errorf("lost %q, want %q", lost, wantLost)
		}
		const silence = 40 * time.Second
		for i, bound := range []time.Duration{500, 1000, 2000, 4000, 500, 1000, 500} {
			bound *= time.Millisecond
			gap := s.at[i+1] - s.at[i]
			if i == 4 || i == 6 {
				gap -= silence
			}
			if gap < bound/2 || gap > bound {
				t.Errorf("%v between connections %d and %d, want half of %v to %v", gap, i, i+1, bound, bound)
			}
		}
	})
}

func TestFollowEnds(t *testing.T) {
	unreachable, failed := errors.New("unreachable"), errors.New("failed")
	for name, tt := range map[string]struct {
		first  response
		handle error
		want   error // nil: by its context
	}{
		"by its context":          {first: response{status: 200, body: strings.Repeat(":\n\n", 3), hangs: true}},
		"unreachable at first":    {first: response{err: unreachable}, want: unreachable},
		"by the reader of events": {first: response{status: 200, body: "data: 1\n\n"}, handle: failed, want: failed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{responses: slices.Repeat([]response{tt.first}, 1000)}
				_, err := s.follow(t, func(adminapi.Event) error { return tt.handle })
				if !errors.Is(err, tt.want) || (time.Since(s.began) == time.Hour) != (tt.want == nil) {
					t.Errorf("ended after %s with %v", time.Since(s.began), err)
				}
			})
		})
	}
}

// TestFollowGoesOnFromItsPlace has a stream say where it begins: without an event it goes on
// from there, and not from a time.
func TestFollowGoesOnFromItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{responses: []response{
			{status: 200, body: ":\n\nid: 7\n\n"}, {status: 200, body: ":\n\nid: 7\n\nid: evt_1\ndata: 1\n\n"}, {status: 403},
		}}
		events := 0
		_, _ = s.follow(t, func(adminapi.Event) error { events++; return nil })
		if want := []string{"", "7", "evt_1"}; !slices.Equal(s.asked, want) || events != 1 {
			t.Errorf("asked from %q, want %q; %d events", s.asked, want, events)
		}
	})
}

// TestFollowGoesOnAtAnEarlierOrigin reconnects to an origin that knows no places: the stream
// goes on from its last event, or from when it began. What that refuses as well is final.
func TestFollowGoesOnAtAnEarlierOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := response{status: 400, body: `{"error": "invalid_parameter", "reason": "last_event_id_invalid"}`}
		s := &script{responses: []response{
			{status: 200, body: ":\n\nid: 7\n\n"}, refused,
			{status: 200, body: ":\n\nid: evt_1\ndata: 1\n\n"},
			{status: 200, body: ":\n\nid: 8\n\n"}, refused,
			{status: 200, body: ":\n\n"}, refused,
		}}
		lost, err := s.follow(t, func(adminapi.Event) error { return nil })
		if want := []string{"", "7", "2026-01-02T03:04:05Z", "evt_1", "8", "evt_1", "evt_1"}; !slices.Equal(s.asked, want) {
			t.Errorf("asked from %q, want %q", s.asked, want)
		}
		if final, ok := errors.AsType[*adminapi.Error](err); !ok || final.Status != 400 || len(lost) != 2 {
			t.Errorf("ended with %v after %q", err, lost)
		}
	})
}
