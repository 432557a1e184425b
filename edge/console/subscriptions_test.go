package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
)

// subscribed returns an admin API with one account, whose oldest subscriptions are active and
// the others revoked.
func subscribed(active, revoked int) http.Handler {
	account := adminapi.Account{ID: "acc_1", Name: "Harbor"}
	mux := http.NewServeMux()
	answer := func(path string, with func(r *http.Request) any) {
		mux.HandleFunc("GET /admin/v1/"+path, func(w http.ResponseWriter, r *http.Request) { _ = json.NewEncoder(w).Encode(with(r)) })
	}
	answer("accounts", func(*http.Request) any { return adminapi.List[adminapi.Account]{Items: []adminapi.Account{account}} })
	answer("accounts/acc_1", func(*http.Request) any { return account })
	answer("accounts/acc_1/keys", func(*http.Request) any { return adminapi.List[adminapi.Key]{} })
	answer("accounts/acc_1/webhooks", func(r *http.Request) any {
		from, _ := strconv.Atoi(r.FormValue("cursor"))
		limit, _ := strconv.Atoi(cmp.Or(r.FormValue("limit"), "50"))
		var page adminapi.List[adminapi.Webhook]
		for n := from; n < active+revoked && n < from+limit; n++ {
			one := adminapi.Webhook{ID: fmt.Sprintf("whs_%d", n), AccountID: account.ID, State: "active"}
			if n < revoked {
				one.State, one.RevokedAt = "revoked", adminapi.Time{Time: time.Unix(1_800_000_000, 0)}
			}
			page.Items = append(page.Items, one)
		}
		if from+limit < active+revoked {
			page.NextCursor = adminapi.Cursor(strconv.Itoa(from + limit))
		}
		return page
	})
	return mux
}

// TestActiveSubscriptionsAreShown: active subscriptions are shown, first, however many newer ones
// are revoked, and the page says what it leaves out.
func TestActiveSubscriptionsAreShown(t *testing.T) {
	const hidden, older = "more of Harbor are not shown", "Only the newest 1000 of Harbor"
	for _, tt := range []struct {
		active, revoked, shown int
		says                   string // "": that nothing is left out
	}{
		{2, 98, 100, ""},
		{2, 99, 100, ">1 " + hidden},
		{200, 0, 200, ""},
		{200, 300, 200, ">300 " + hidden},
		{2, 998, 100, ">900 " + hidden},
		{2, 999, 100, older},
	} {
		for _, page := range []string{"accounts/acc_1", "webhooks"} {
			c, err := New(Config{API: subscribed(tt.active, tt.revoked)})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, Path+page, nil)
			r.AddCookie(&http.Cookie{Name: sessionCookie, Value: c.sessions.open("token", adminapi.Whoami{Role: "viewer"}).id})
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			text := w.Body.String()
			shown := strings.Count(text, `href="/console/webhooks/whs_`)
			active := strings.Count(text, `<span class="badge good">active</span>`)
			if want := min(tt.active, subscriptionsRead-tt.revoked); shown != tt.shown || active != want {
				t.Errorf("%d active and %d revoked: %s shows %d, %d of them active", tt.active, tt.revoked, page, shown, active)
			}
			if strings.Index(text, ">revoked<") < strings.LastIndex(text, ">active<") && shown > active {
				t.Errorf("%d active and %d revoked: %s shows revoked ones before active ones", tt.active, tt.revoked, page)
			}
			if says := strings.Contains(text, hidden) || strings.Contains(text, older); says != (tt.says != "") || !strings.Contains(text, tt.says) {
				t.Errorf("%d active and %d revoked: %s does not say %q, or says too much", tt.active, tt.revoked, page, tt.says)
			}
		}
	}
}
