package console

import (
	"html/template"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
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
		c, err := New(Config{Now: time.Now, API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{}")
		})})
		if err != nil {
			t.Fatal(err)
		}
		c.pages["news"] = template.Must(template.New("news").Parse(`{{define "live"}}news{{end}}`))
		r := httptest.NewRequest(http.MethodGet, "/console/live", nil)
		one := c.sessions.open("token", adminapi.Whoami{ID: "tok_1"})
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: one.id})
		w, began := patient{httptest.NewRecorder()}, time.Now()
		c.live(func(*visit) (view, error) { return view{page: "news"}, nil })(w, &visit{r, one, c.client(r, one.token)})
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

// TestLiveIsReadForAll: what is shown live is read once for all who look at it, whose tokens are
// judged each time. Each gets the forms of its own role, with the token of its own session.
func TestLiveIsReadForAll(t *testing.T) {
	for _, roles := range [][]string{{"viewer", "operator", "operator", "admin"}, {"operator"}} {
		rollouts, judged := watchReleases(t, roles)
		each := int64(streamTime / streamEvery)
		if rollouts > each || rollouts < each-1 || judged < int64(len(roles))*(each-1) {
			t.Errorf("%d pages: in %d times 2 s the rollouts are read %d times, and tokens judged %d times", len(roles), each, rollouts, judged)
		}
	}
}

// watchReleases has the page of releases open for each of some roles for as long as a stream
// lasts, and returns how often the rollouts were read and a token was judged. To judge one takes
// a while every other time.
func watchReleases(t *testing.T, roles []string) (reads, tokens int64) {
	synctest.Test(t, func(t *testing.T) {
		var rollouts, judged atomic.Int64
		c, err := New(Config{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/whoami"):
				if judged.Add(1)/int64(len(roles))%2 == 1 {
					<-time.After(time.Millisecond)
				}
			case strings.HasSuffix(r.URL.Path, "/rollouts"):
				rollouts.Add(1)
			}
			_, _ = io.WriteString(w, `{"items":[{"id":"rol_1","release_id":"rel_1","state":"done"}]}`)
		})})
		if err != nil {
			t.Fatal(err)
		}
		var pages sync.WaitGroup
		for _, role := range roles {
			one := c.sessions.open("token", adminapi.Whoami{ID: role, Role: role})
			r := httptest.NewRequest(http.MethodGet, Path+"releases/live", nil)
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: one.id})
			pages.Go(func() {
				w := patient{httptest.NewRecorder()}
				c.ServeHTTP(w, r)
				sent, forms := strings.Count(w.Body.String(), "event: live"), strings.Count(w.Body.String(), `value="`+one.csrf+`"`)
				if want := map[bool]int{true: sent}[role != "viewer"]; sent == 0 || forms != want || forms != strings.Count(w.Body.String(), `name="csrf"`) {
					t.Errorf("%s is sent %d events with %d forms, want %d", role, sent, forms, want)
				}
			})
		}
		pages.Wait()
		reads, tokens = rollouts.Load(), judged.Load()
	})
	return reads, tokens
}
