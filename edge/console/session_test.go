package console

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/proxies"
)

func TestSessionsAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := newSessions(func() time.Time { return now })
	request := func(one *session) *http.Request {
		r := httptest.NewRequest("GET", "/console/", nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: one.id})
		return r
	}
	first := s.open("a", adminapi.Whoami{})
	second := s.open("b", adminapi.Whoami{})
	now = now.Add(time.Second)
	if s.find(request(first), true) != first || first.csrf == second.csrf || first.id == second.id {
		t.Fatal("sessions are mixed up")
	}
	for range maxSessions - 1 {
		s.open("c", adminapi.Whoami{})
	}
	if len(s.byID) != maxSessions || s.find(request(second), true) != nil || s.find(request(first), true) == nil {
		t.Errorf("%d sessions; it should be the one longest unused that made room", len(s.byID))
	}
	now = now.Add(idleTime - time.Second)
	if s.find(request(first), false) == nil {
		t.Error("ended before its time")
	}
	now = now.Add(2 * time.Second) // what a page asks by itself was no use
	if s.find(request(first), true) != nil {
		t.Error("goes on though nobody uses it")
	}
	long := s.open("d", adminapi.Whoami{})
	for range int(sessionTime / (idleTime / 2)) {
		now = now.Add(idleTime / 2)
		s.find(request(long), true)
	}
	now = now.Add(time.Second)
	if s.find(request(long), true) != nil {
		t.Error("goes on for ever when it is used")
	}
	if len(s.byID) > maxSessions {
		t.Errorf("%d sessions", len(s.byID))
	}
}

// TestSessionsOfOthersStay: who logs in again and again ends sessions of their own, and who
// opens live pages leaves some to others.
func TestSessionsOfOthersStay(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := newSessions(func() time.Time { return now })
	operator, admin := s.open("a", adminapi.Whoami{ID: "operator"}), s.open("b", adminapi.Whoami{ID: "admin"})
	first := s.open("c", adminapi.Whoami{ID: "viewer"})
	var last *session
	for range 3 * maxSessions {
		now = now.Add(time.Second)
		last = s.open("c", adminapi.Whoami{ID: "viewer"})
	}
	for _, one := range []*session{operator, admin, last} {
		if s.byID[one.id] != one {
			t.Errorf("a session of %s has ended", one.who.ID)
		}
	}
	if s.byID[first.id] != nil || len(s.byID) != maxSessions {
		t.Errorf("%d sessions; the first of whoever has the most should have made room", len(s.byID))
	}
}

// TestLivePagesOfOne: whoever has logged in has half of the places of live pages at most.
func TestLivePagesOfOne(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range streamsOfOne {
		if _, ok := c.streams.Take("viewer"); !ok {
			t.Fatal("there is no place")
		}
	}
	answer := httptest.NewRecorder()
	c.live(nil)(answer, &visit{session: &session{who: adminapi.Whoami{ID: "viewer"}}})
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("one live page more was answered by %d", answer.Code)
	}
}

// TestLoginThroughAProxy: the admin API is told the client's address, where the proxy may say it.
func TestLoginThroughAProxy(t *testing.T) {
	for peer, want := range map[string]string{"10.1.2.3:9": "192.0.2.1:0", "198.51.100.7:9": "198.51.100.7:0"} {
		var got string
		c, err := New(Config{
			Proxies: proxies.Set{netip.MustParsePrefix("10.0.0.0/8")},
			API:     http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.RemoteAddr }),
		})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/console/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = peer, []string{"203.0.113.9, 192.0.2.1"}
		_ = c.client(r, "token").Call(t.Context(), "GET", "/whoami", nil, nil) // the answer is none
		if got != want {
			t.Errorf("from %s the API is asked by %q, want %q", peer, got, want)
		}
	}
}

// TestCookiesAreSecureBehindHTTPS: also where a proxy that may say so speaks it.
func TestCookiesAreSecureBehindHTTPS(t *testing.T) {
	c, err := New(Config{Proxies: proxies.Set{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		name, peer string
		said       []string
		tls        *tls.ConnectionState
		secure     bool
	}{
		{name: "plain", peer: "127.0.0.1:9"},
		{name: "TLS here", peer: "192.0.2.1:9", tls: new(tls.ConnectionState), secure: true},
		{name: "a proxy by HTTPS", peer: "10.1.2.3:9", said: []string{"https"}, secure: true},
		{name: "a proxy, mapped into IPv6", peer: "[::ffff:10.1.2.3]:9", said: []string{"HTTPS"}, secure: true},
		{name: "a proxy by HTTP", peer: "10.1.2.3:9", said: []string{"http"}},
		{name: "a proxy that says nothing", peer: "10.1.2.3:9"},
		{name: "a client's own claim, before the proxy's", peer: "10.1.2.3:9", said: []string{"https, http"}},
		{name: "the same in two headers", peer: "10.1.2.3:9", said: []string{"https", "http"}},
		{name: "somebody else", peer: "192.0.2.1:9", said: []string{"https"}},
	} {
		r := httptest.NewRequest("GET", "/console/login", nil)
		r.RemoteAddr, r.TLS = one.peer, one.tls
		if one.said != nil {
			r.Header["X-Forwarded-Proto"] = one.said
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 || cookies[0].Secure != one.secure || !cookies[0].HttpOnly {
			t.Errorf("%s: %v, want Secure %t", one.name, cookies, one.secure)
		}
	}
}

// TestLoginFormsAreOfOneConsole: who knows another origin's forms cannot make those
// of this one, since each signs them with a random key.
func TestLoginFormsAreOfOneConsole(t *testing.T) {
	if a, b := newSessions(time.Now), newSessions(time.Now); a.sign("cookie") == b.sign("cookie") || a.sign("cookie") == a.sign("other") {
		t.Error("the same signature")
	}
}
