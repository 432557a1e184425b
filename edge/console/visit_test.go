package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"partneredge/edge/adminapi"
)

func visitOf(target string, form url.Values) *visit {
	r := httptest.NewRequest("GET", target, nil)
	r.PostForm = form
	return &visit{Request: r}
}

// TestNextPage keeps the filters of a list in the address of its next page.
func TestNextPage(t *testing.T) {
	v := visitOf("/console/deliveries?state=dead&cursor=old", nil)
	if got := v.next("a/b"); got != "/console/deliveries?cursor=a%2Fb&state=dead" {
		t.Errorf("the next page is %s", got)
	}
	if got := v.next(""); got != "" {
		t.Errorf("after the last page comes %s", got)
	}
	if got := v.page() + v.query("state"); got != "?limit=50&cursor=old&state=dead" {
		t.Errorf("the admin API is asked for %s", got)
	}
	if got := v.rows("50"); got != "50" {
		t.Errorf("a page shows %s rows", got)
	}
	if got := visitOf("/console/deliveries.csv?state=dead", nil).rows("50"); got != "200" {
		t.Errorf("a download asks for %s rows at a time", got)
	}
}

// TestFields reads numbers, times and lists from a form.
func TestFields(t *testing.T) {
	v := visitOf("/console/", url.Values{"n": {"-7"}, "bad": {"x"}, "list": {"a, b\n\tc,,"},
		"two": {"2"}, "half": {"0.5"}, "most": {"106751"}, "more": {"106752"}, "wraps": {"213503982334602"}})
	if n, err := v.number("n"); err != nil || n == nil || *n != -7 {
		t.Errorf("number %v, %v", n, err)
	}
	if n, err := v.number("none"); err != nil || n != nil {
		t.Errorf("no number: %v, %v", n, err)
	}
	if n, err := v.number("bad"); err == nil || n != nil {
		t.Errorf("not a number: %v, %v", n, err)
	}
	// What is no time must not count as none, which is for ever.
	for _, tt := range []struct {
		name string
		unit time.Duration
		want int64 // -1: none
		ok   bool
	}{
		{"two", time.Hour, 7200, true}, {"none", time.Hour, -1, true}, {"bad", time.Hour, -1, false}, {"n", time.Hour, -1, false},
		{"half", time.Hour, -1, false}, {"most", 24 * time.Hour, 106751 * 86400, true}, {"more", 24 * time.Hour, -1, false}, {"wraps", 24 * time.Hour, -1, false},
	} {
		if s, err := v.seconds(tt.name, tt.unit); (err == nil) != tt.ok || (s != nil) != (tt.want >= 0) || s != nil && *s != tt.want {
			t.Errorf("%s: %v seconds, %v", tt.name, s, err)
		}
	}
	if got := v.words("list"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("words %q", got)
	}
	if got := v.field("none"); got == nil || *got != "" {
		t.Errorf("field %v", got)
	}
}

// TestExpiredSessionIsDropped: a session that has expired takes no memory once
// its cookie has come again, and an unknown address is not HTTPS.
func TestExpiredSessionIsDropped(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := newSessions(func() time.Time { return now })
	one := s.open("token", adminapi.Whoami{})
	r := httptest.NewRequest("GET", "/console/", nil)
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: one.id})
	for range sessionTime / idleTime { // each use begins the wait anew
		now = now.Add(idleTime)
		if s.find(r, true) == nil {
			t.Fatal("expired before its time")
		}
	}
	now = now.Add(1)
	if s.find(r, false) != nil || len(s.byID) != 0 {
		t.Errorf("%d sessions are kept", len(s.byID))
	}
	r.RemoteAddr = "pipe"
	r.Header.Set("X-Forwarded-Proto", "https")
	if new(Console).byHTTPS(r) {
		t.Error("a request from nowhere counts as HTTPS")
	}
}

// TestReadsEndWithTheBrowser closes the tab while the admin API is asked: what it reads ends,
// and what it changes goes on.
func TestReadsEndWithTheBrowser(t *testing.T) {
	asked := make(chan context.Context)
	c := &Console{cfg: Config{API: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Context() })}}
	ctx, leave := context.WithCancel(t.Context())
	v := visitOf("/console/deliveries", nil)
	v.Request = v.WithContext(ctx)
	v.api = c.client(v.Request, "token")
	go func() { _ = v.get("/deliveries", nil) }()
	reading := <-asked
	go func() { _ = v.post("/accounts", nil, nil) }()
	changing := <-asked
	leave()
	if reading.Err() == nil || changing.Err() != nil {
		t.Errorf("when the browser is gone, a read ends with %v and a change with %v", reading.Err(), changing.Err())
	}
}
