package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"partneredge/edge/adminapi"
)

// TestRecoverGoesOn: the form asks on where an answer ended, and says when it stops before all
// is queued.
func TestRecoverGoesOn(t *testing.T) {
	for requests, want := range map[int]string{2: "queued again: 2.", 100: "queued again: 4. There are more: queue again."} {
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
			answer := adminapi.Recovered{Queued: 1}
			if len(asked) < requests {
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
		if cursors := strings.Join(asked, ","); !strings.HasPrefix(",x,xx,xxx", cursors) || len(asked) != min(requests, recoverRequests) {
			t.Errorf("of %d requests it made %d, from %q", requests, len(asked), cursors)
		}
		if done := c.sessions.takeNotices(one); w.Code != http.StatusSeeOther || len(done) != 1 || !strings.HasSuffix(done[0].Text, want) {
			t.Errorf("of %d requests: status %d, %+v, want %q", requests, w.Code, done, want)
		}
	}
}
