package node

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

func TestServesFromItsReplica(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	at := time.Date(2026, 2, 1, 10, 0, 0, 0, time.UTC)
	o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "Acme", Mode: store.ModeLive, Agent: store.Agent{ID: "agt_1", Email: "a@example.com"}}
	o.insights["acc_1"] = []store.Insight{{ID: "ins_2", Headline: "two", CreatedAt: at.Add(time.Hour)}, {ID: "ins_1", Headline: "one", CreatedAt: at}}
	for i := range 130 {
		o.firings["acc_1"] = append(o.firings["acc_1"], store.Firing{
			ID: fmt.Sprintf("fir_%03d", 130-i), TriggeredAt: at.Add(-time.Duration(i) * time.Second), Data: []byte(`{}`),
		})
	}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))

	for range 3 {
		ask(t, n, "GET", me, key, "").want(t, 200, `"acc_1"`, `"a@example.com"`, `"v2"`)
		ask(t, n, "GET", insights+"?limit=1", key, "").want(t, 200, `"ins_2"`, `"count":1`)
		ask(t, n, "GET", insights+"?since=2026-02-01T10:00:00Z", key, "").want(t, 200, `"ins_2"`, `"count":1`)
		ask(t, n, "GET", firings+"?limit=40", key, "").want(t, 200, `"fir_130"`, `"count":40`)
	}
	if k, v := o.requests(wire.VerbKey), o.requests(wire.VerbView); k != 1 || v != 3 {
		t.Errorf("origin was asked for %d keys and %d views, want 1 and 3", k, v)
	}
	// Through all pages: the last ones are beyond what is held.
	seen, cursor := 0, ""
	for page := 0; page == 0 || cursor != ""; page++ {
		path := firings + "?limit=40"
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		var got struct {
			Firings    []struct{ ID string }
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(ask(t, n, "GET", path, key, "").want(t, 200).body), &got); err != nil {
			t.Fatal(err)
		}
		for _, f := range got.Firings {
			if want := fmt.Sprintf("fir_%03d", 130-seen); f.ID != want {
				t.Fatalf("firing %s, want %s", f.ID, want)
			}
			seen++
		}
		cursor = got.NextCursor
	}
	if seen != 130 {
		t.Errorf("%d firings on all pages, want 130", seen)
	}
}

// TestPagesLeaveSandboxes: while an origin that is connected answers no question for pages, one
// key's requests for them wait in few sandboxes, and what is held is served.
func TestPagesLeaveSandboxes(t *testing.T) {
	t.Parallel()
	const most, asked = 16, 100
	o := newOrigin(t)
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1000 })
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	for i := range 101 {
		o.firings["acc_1"] = append(o.firings["acc_1"], store.Firing{
			ID: fmt.Sprintf("fir_%03d", i), TriggeredAt: time.Date(2026, 2, 1, 0, 0, -i, 0, time.UTC), Data: []byte(`{}`),
		})
	}
	c := config(t, o)
	c.ReadOrigin = 10 * time.Minute
	n := startNode(t, c)
	ask(t, n, "GET", firings, key, "").want(t, 200)
	before := o.requests(wire.VerbView)
	o.do(func() { o.mute[wire.VerbView] = true })
	answers := make(chan int, asked)
	for range asked {
		go func() { answers <- ask(t, n, "GET", firings+"?cursor=2025-01-01T00:00:00Z", key, "").status }()
	}
	for range asked - most {
		if status := <-answers; status != 500 {
			t.Errorf("a page beyond what may wait: status %d", status)
		}
	}
	ask(t, n, "GET", firings, key, "").want(t, 200)
	eventually(t, "the pages are asked for", func() bool { return o.requests(wire.VerbView)-before == most })
	o.failUnanswered()
	for range most {
		if status := <-answers; status != 500 {
			t.Errorf("a page that the origin failed: status %d", status)
		}
	}
}

// Whatever the admin API lets arise can be read, on the largest page too.
func TestServesTheLargestPages(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	at := time.Date(2026, 2, 1, 10, 0, 0, 0, time.UTC)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	data := []byte(`{"a":"` + strings.Repeat("x", 16<<10-8) + `"}`)
	for i := range 101 {
		o.firings["acc_1"] = append(o.firings["acc_1"], store.Firing{
			ID: fmt.Sprintf("fir_%03d", i), TriggeredAt: at.Add(-time.Duration(i) * time.Second), Data: data,
			Name: strings.Repeat("é", 100), Action: strings.Repeat("😀", 500),
		})
	}
	for i := range 50 {
		o.insights["acc_1"] = append(o.insights["acc_1"], store.Insight{
			ID: fmt.Sprintf("ins_%03d", i), CreatedAt: at.Add(-time.Duration(i) * time.Second),
			Headline: strings.Repeat("é", 500), Detail: strings.Repeat("😀", 10_000),
		})
	}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	// What the first call waits for at the origin may take a busy machine longer than a call
	// may last.
	served := func(page string) (a answer) {
		eventually(t, page, func() bool { a = ask(t, n, "GET", page, key, ""); return a.status != 500 })
		return a
	}
	served(firings+"?limit=100").want(t, 200, `"fir_000"`, `"fir_099"`, `"count":100`)
	served(insights+"?limit=50").want(t, 200, `"ins_000"`, `"ins_049"`, `"count":50`)
}

func TestFollowsChanges(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "before"}
	key, other := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 10_000 }), o.addKey("key_2", nil)
	n := startNode(t, config(t, o))
	ask(t, n, "GET", me, key, "").want(t, 200, "before")
	ask(t, n, "GET", me, other, "").want(t, 200)

	var c store.Change
	o.do(func() {
		o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "after"}
		c = o.change(store.ChangeProfile, "acc_1", false)
	})
	o.push(c)
	eventually(t, "the new name", func() bool { return strings.Contains(ask(t, n, "GET", me, key, "").want(t, 200).body, "after") })

	o.push(o.editKey(key, false, func(k *store.Key) { k.Scopes = []string{store.ScopeWriteLeads} }))
	eventually(t, "the scope is gone", func() bool { return ask(t, n, "GET", me, key, "").status == 403 })
	ask(t, n, "GET", me, other, "").want(t, 200)

	// Revoked: refused before the origin is asked for anything.
	o.do(func() { o.mute[wire.VerbKey] = true })
	o.push(o.editKey(other, true, func(k *store.Key) { k.RevokedAt = time.Now() }))
	eventually(t, "revoked", func() bool { return ask(t, n, "GET", me, other, "").status == 401 })
	ask(t, n, "GET", me, other, "").want(t, 401, "api_key_revoked")

	// A push that is lost is asked for at the next beat.
	o.do(func() {
		o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "third"}
		o.change(store.ChangeProfile, "acc_1", false)
		o.mute[wire.VerbKey] = false
	})
	o.push(o.editKey(key, false, func(k *store.Key) { k.Scopes = []string{store.ScopeReadAgent} }))
	eventually(t, "what was missed", func() bool {
		a := ask(t, n, "GET", me, key, "")
		return a.status == 200 && strings.Contains(a.body, "third")
	})
}

func TestUnknownKeyIsRememberedForAMoment(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	c, moment := config(t, o), time.Now()
	c.Now = func() time.Time { return moment }
	c.Lockout.Failures = 1 << 30 // as often as it takes
	n := startNode(t, c)
	key := plaintext("key_1")
	for range 5 {
		ask(t, n, "GET", me, key, "").want(t, 401, "unknown_api_key")
	}
	if got := o.requests(wire.VerbKey); got != 1 {
		t.Errorf("origin was asked %d times", got)
	}
	o.do(func() { o.accounts["acc_1"] = store.Account{ID: "acc_1"} })
	o.addKey("key_1", nil)
	o.push(o.changes[0])
	eventually(t, "the key is known", func() bool { return ask(t, n, "GET", me, key, "").status == 200 })
}

func TestManyRequestsAskOnce(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	release := make(chan struct{})
	o.do(func() { o.hold = func(string) { <-release } })
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if a := ask(t, n, "GET", me, key, ""); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	eventually(t, "the key is asked for", func() bool { return o.requests(wire.VerbKey) > 0 })
	close(release)
	wg.Wait()
	// A request may miss the view before it comes, and ask for it after that.
	if k, v := o.requests(wire.VerbKey), o.requests(wire.VerbView); k != 1 || v < 1 || v > 3 {
		t.Errorf("%d requests for the key, %d for the view", k, v)
	}
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	subscribe := func(host string) answer {
		return ask(t, n, "POST", webhooks+"subscribe", key, `{"target_url":"https://`+host+`/h","events":["sentinel.fired"]}`)
	}
	subscribe("internal.example.com").want(t, 400, "invalid_target_url", "host_not_public")
	var made struct {
		Subscription struct{ ID string }
		Secret       string
	}
	if err := json.Unmarshal([]byte(subscribe("example.com").want(t, 201).body), &made); err != nil {
		t.Fatal(err)
	}
	o.do(func() {
		s := o.subs[made.Subscription.ID]
		if s.Secret != made.Secret || s.AccountID != "acc_1" || s.KeyID != "key_1" || s.Environment != store.Live || s.CreatedAt.IsZero() {
			t.Errorf("subscription at the origin: account %s, key %s, %s", s.AccountID, s.KeyID, s.Environment)
		}
	})
	ask(t, n, "DELETE", webhooks+made.Subscription.ID, key, "").want(t, 200, `"ok":true`)
	ask(t, n, "DELETE", webhooks+made.Subscription.ID, key, "").want(t, 200, `"already_revoked":true`)
	ask(t, n, "DELETE", webhooks+"whs_other", key, "").want(t, 404, "subscription_not_found")
	o.do(func() { o.fail[wire.VerbSubscribe] = wire.Limit })
	subscribe("example.com").want(t, 400, "subscription_limit_reached")
	o.do(func() { o.fail[wire.VerbSubscribe] = wire.Internal })
	subscribe("example.com").want(t, 500)
}
