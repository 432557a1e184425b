package console

import (
	"html/template"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/adminapi"
)

// patient is a recorder that takes deadlines.
type patient struct{ *httptest.ResponseRecorder }

func (patient) SetWriteDeadline(time.Time) error { return nil }

// TestLiveEnds: a live page gets news until its time is over, and then has to ask again.
func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		c.pages["news"] = template.Must(template.New("news").Parse(`{{define "live"}}news{{end}}`))
		r := httptest.NewRequest(http.MethodGet, "/console/live", nil)
		one := c.sessions.open("token", adminapi.Whoami{ID: "tok_1"})
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: one.id})
		w, began := patient{httptest.NewRecorder()}, time.Now()
		c.live(func(*visit) (view, error) { return view{page: "news"}, nil })(w, &visit{Request: r, session: one})
		if took, sent := time.Since(began), strings.Count(w.Body.String(), "data: news"); took != streamTime || sent < int(streamTime/streamEvery)-1 {
			t.Errorf("it ended after %v, with %d events", took, sent)
		}
	})
}

// TestLiveEndsWithItsToken: a live page whose token was revoked presents it once. When the page
// reconnects by itself it is sent to the login: each time more would count as a guess of its
// address, and keep others there from logging in.
func TestLiveEndsWithItsToken(t *testing.T) {
	for _, path := range []string{"live", "releases/live"} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			c, err := New(Config{API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.WriteHeader(http.StatusUnauthorized)
			})})
			if err != nil {
				t.Fatal(err)
			}
			one := c.sessions.open("revoked", adminapi.Whoami{ID: "tok_1"})
			connect := func() *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodGet, Path+path, nil)
				r.AddCookie(&http.Cookie{Name: sessionCookie, Value: one.id})
				w := httptest.NewRecorder()
				c.ServeHTTP(w, r)
				return w
			}
			connect()
			if again := connect(); asked != 1 || again.Header().Get("Location") != Path+"login" {
				t.Errorf("%s presents the token %d times, and is answered %d when it reconnects", path, asked, again.Code)
			}
		})
	}
}
