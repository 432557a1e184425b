package console

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"partneredge/edge/adminapi"
)

// TestRecoverGoesOn: the form asks on where an answer ended, and says how many were queued when
// it stops before all are, also where the origin refuses to go on.
func TestRecoverGoesOn(t *testing.T) {
	for _, tt := range []struct {
		requests, refused int // of so many, and the one that is refused
		want              string
	}{
		{2, 0, "queued again: 2."},
		{100, 0, "queued again: 4. There are more: queue again."},
		{3, 3, "queued again: 2. Then no more: the subscription is revoked."},
	} {
		var asked []string // the cursors
		c, err := New(Config{API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var in adminapi.Recovery
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				t.Error(err)
			}
			cursor := ""
			if in.Cursor != nil {
				cursor = *in.Cursor
			}
			asked = append(asked, cursor)
			if len(asked) == tt.refused {
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, `{"error":"x","detail":"the subscription is revoked."}`)
				return
			}
			answer := adminapi.Recovered{Queued: 1}
			if len(asked) < tt.requests {
				answer.NextCursor = adminapi.Cursor(cursor + "x")
			}
			_ = json.NewEncoder(w).Encode(answer)
		})})
		if err != nil {
			t.Fatal(err)
		}
		one := c.sessions.open("token", adminapi.Whoami{Role: "operator"})
		body := url.Values{"csrf": {one.csrf}, "hours": {"2"}}.Encode()
		r := httptest.NewRequest(http.MethodPost, Path+"webhooks/whs_1/recover", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: one.id})
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if cursors := strings.Join(asked, ","); !strings.HasPrefix(",x,xx,xxx", cursors) || len(asked) != min(tt.requests, recoverRequests) {
			t.Errorf("of %d requests it made %d, from %q", tt.requests, len(asked), cursors)
		}
		if done := c.sessions.takeNotices(one); w.Code != http.StatusSeeOther || len(done) != 1 || !strings.HasSuffix(done[0].Text, tt.want) {
			t.Errorf("of %d requests: status %d, %+v, want %q", tt.requests, w.Code, done, tt.want)
		}
	}
}
