package origin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

func TestSubscribeAndRevokeVerbs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.Guard = guardFunc(func(url string) (string, error) {
			switch url {
			case "https://127.0.0.1/":
				return "host_not_public", nil
			case "https://broken.example/":
				return "", errors.New("no judge")
			}
			return "", nil
		})
	})
	account, other := f.account("live"), f.account("live")
	keyID, _ := f.key(account, "live")
	otherKey, _ := f.key(other, "live")
	node := f.enrol("n1")
	good := store.Subscription{
		ID: "whs_1", AccountID: account, KeyID: keyID, Environment: store.Live, TargetURL: "https://partner.example/hook",
		Events: []string{store.EventSentinelFired}, Secret: strings.Repeat("5e", 32), CreatedAt: time.Now().UTC(),
	}
	subscribe := func(change func(*store.Subscription)) wire.SubscribeReply {
		s := good
		if change != nil {
			change(&s)
		}
		return ask[wire.SubscribeReply](node, wire.VerbSubscribe, wire.SubscribeRequest{Head: head, KeyHash: f.hash(s.KeyID), Subscription: s})
	}
	for range 2 { // idempotent by id
		if r := subscribe(nil); r.Failure != "" || r.Reason != "" {
			t.Fatalf("got %+v", r)
		}
	}
	for name, c := range map[string]struct {
		change  func(*store.Subscription)
		failure wire.Failure
		reason  string
	}{
		"refused by the guard":  {func(s *store.Subscription) { s.ID, s.TargetURL = "whs_2", "https://127.0.0.1/" }, "", "host_not_public"},
		"guard cannot tell":     {func(s *store.Subscription) { s.ID, s.TargetURL = "whs_2", "https://broken.example/" }, wire.Internal, ""},
		"id taken":              {func(s *store.Subscription) { s.TargetURL = "https://elsewhere.example/" }, wire.Invalid, ""},
		"no id":                 {func(s *store.Subscription) { s.ID = "" }, wire.Invalid, ""},
		"short secret":          {func(s *store.Subscription) { s.ID, s.Secret = "whs_2", "5e" }, wire.Invalid, ""},
		"no events":             {func(s *store.Subscription) { s.ID, s.Events = "whs_2", nil }, wire.Invalid, ""},
		"unknown event":         {func(s *store.Subscription) { s.ID, s.Events = "whs_2", []string{"x"} }, wire.Invalid, ""},
		"another account's key": {func(s *store.Subscription) { s.ID, s.AccountID = "whs_2", other }, wire.Refused, ""},
		"another environment":   {func(s *store.Subscription) { s.ID, s.Environment = "whs_2", store.Test }, wire.Refused, ""},
		"unknown key":           {func(s *store.Subscription) { s.ID, s.KeyID = "whs_2", "key_none" }, wire.Refused, ""},
	} {
		if r := subscribe(c.change); r.Failure != c.failure || r.Reason != c.reason {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	for i := range 99 {
		if r := subscribe(func(s *store.Subscription) { s.ID = fmt.Sprint("whs_more_", i) }); r.Failure != "" {
			t.Fatalf("number %d: %+v", i, r)
		}
	}
	if r := subscribe(func(s *store.Subscription) { s.ID = "whs_101" }); r.Failure != wire.Limit {
		t.Errorf("number 101: %+v", r)
	}

	revoke := func(account, key, id string) wire.RevokeReply {
		return ask[wire.RevokeReply](node, wire.VerbRevoke, wire.RevokeRequest{Head: head, AccountID: account, ID: id, KeyHash: f.hash(key)})
	}
	if r := revoke(other, otherKey, "whs_1"); r.Failure != wire.NotFound {
		t.Errorf("revoked by another account: %+v", r)
	}
	if r := revoke(account, keyID, "whs_1"); r.Failure != "" || r.Already {
		t.Errorf("revoked: %+v", r)
	}
	if r := revoke(account, keyID, "whs_1"); r.Failure != "" || !r.Already {
		t.Errorf("revoked again: %+v", r)
	}

	_, _, text := f.send("GET", "/admin/v1/accounts/"+account+"/webhooks?limit=200", nil, "Bearer "+f.Token())
	if !strings.Contains(string(text), "whs_1") || strings.Contains(string(text), good.Secret) || strings.Contains(f.logs.String(), good.Secret) {
		t.Error("the list lacks a subscription, or a secret is shown")
	}
}

// soonRefused is in the metrics when ten subscriptions or more were refused long before their
// time was over.
var soonRefused = regexp.MustCompile(`node_request_seconds_bucket\{failure="unavailable",verb="subscribe",le="2.5"\} [1-9]\d`)

// TestSlowNames: the names of an account's targets are looked up slowly. Two are at
// a time, four wait, and further ones are refused at once. Nobody else waits: not the
// node's own lookups, not another account.
func TestSlowNames(t *testing.T) {
	t.Parallel()
	var looking atomic.Int32
	end := make(chan struct{})
	f := newFixture(t, func(c *Config) {
		c.Guard = guardFunc(func(target string) (string, error) {
			if strings.Contains(target, "slow") {
				looking.Add(1)
				defer looking.Add(-1)
				<-end
			}
			return "", nil
		})
	})
	node := f.enrol("n1")
	subscribe := func(account, host string, i int) wire.SubscribeRequest {
		key, _ := f.key(account, "test")
		return wire.SubscribeRequest{Head: head, KeyHash: f.hash(key), Subscription: store.Subscription{
			ID: store.NewID("whs", time.Now()), AccountID: account, KeyID: key, Environment: store.Test,
			TargetURL: fmt.Sprintf("https://%s/%d", host, i), Events: []string{store.EventInsightCreated},
			Secret: strings.Repeat("ab", 32), CreatedAt: time.Now().UTC(),
		}}
	}
	account, other := f.account("live"), f.account("live")
	requests := make([]wire.SubscribeRequest, 100)
	for i := range requests {
		requests[i] = subscribe(account, "slow.example.net", i)
	}
	var slow sync.WaitGroup
	var refused atomic.Int32
	for _, request := range requests {
		slow.Go(func() {
			if ask[wire.SubscribeReply](node, wire.VerbSubscribe, request).Failure == wire.Unavailable {
				refused.Add(1)
			}
		})
	}
	// On a busy machine those that wait are refused as well, once their time is over.
	f.eventually("94 are refused", func() bool { return refused.Load() >= 94 })
	if _, _, metrics := f.send("GET", "/metrics", nil, ""); !soonRefused.Match(metrics) {
		t.Error("few were refused at once")
	}
	f.eventually("two lookups", func() bool { return looking.Load() == 2 })
	if reply := ask[wire.KeyReply](node, wire.VerbKey, wire.KeyRequest{Head: head, Hash: make([]byte, 32)}); reply.Failure != wire.NotFound {
		t.Errorf("a key: %+v", reply)
	}
	if reply := ask[wire.SubscribeReply](node, wire.VerbSubscribe, subscribe(other, "fast.example.net", 0)); reply.Failure != "" {
		t.Errorf("another account: %+v", reply)
	}
	if n := looking.Load(); n != 2 {
		t.Errorf("%d lookups at once", n)
	}
	close(end)
	slow.Wait()
}

// TestSubscribeOnceVerb: the idempotency key of a subscription holds at the origin, so
// at every node, and what no partner was told of is given up.
func TestSubscribeOnceVerb(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	keyID, _ := f.key(account, "live")
	nodes := []*enrolled{f.enrol("n1"), f.enrol("n2")}
	subscribe := func(n int, id, digest string, change func(*wire.SubscribeRequest)) wire.SubscribeReply {
		req := wire.SubscribeRequest{Head: head, KeyHash: f.hash(keyID), Once: &wire.Once{Name: "name", Digest: digest}, WithinMS: 6000, Subscription: store.Subscription{
			ID: id, AccountID: account, KeyID: keyID, Environment: store.Live, TargetURL: "https://partner.example/hook",
			Events: []string{store.EventSentinelFired}, Secret: strings.Repeat("5e", 32), CreatedAt: time.Now().UTC(),
		}}
		if change != nil {
			change(&req)
		}
		return ask[wire.SubscribeReply](nodes[n], wire.VerbSubscribe, req)
	}
	if r := subscribe(0, "whs_1", "d", nil); r.Failure != "" || r.Repeated != nil || r.Conflict {
		t.Fatalf("the first: %+v", r)
	}
	abandon := func(id string) {
		t.Helper()
		if r := ask[wire.RevokeReply](nodes[0], wire.VerbRevoke, wire.RevokeRequest{Head: head, AccountID: account, ID: id, Once: "name", KeyHash: f.hash(keyID), Untold: true}); r.Failure != "" {
			t.Errorf("abandon %s: %+v", id, r)
		}
	}
	abandon("whs_1") // nobody knows it
	if r := subscribe(0, "whs_2", "d", nil); r.Failure != "" || r.Repeated != nil {
		t.Fatalf("after it was given up: %+v", r)
	}
	other := func(req *wire.SubscribeRequest) { req.Subscription.Secret = strings.Repeat("7a", 32) }
	if r := subscribe(1, "whs_3", "d", other); r.Repeated == nil || r.Repeated.ID != "whs_2" || r.Repeated.Secret != strings.Repeat("5e", 32) {
		t.Errorf("again, at the other node: %+v", r)
	}
	if r := subscribe(1, "whs_3", "e", nil); !r.Conflict || r.Repeated != nil || r.Failure != "" {
		t.Errorf("something else: %+v", r)
	}
	abandon("whs_2") // which the other node was told of, as far as is known
	items := f.must(200, "GET", accounts+"/"+account+"/webhooks", nil)["items"].([]any)
	var active []string
	for _, item := range items {
		if w := item.(object); w["state"] == "active" {
			active = append(active, w["id"].(string))
		}
	}
	if !slices.Equal(active, []string{"whs_2"}) {
		t.Errorf("active: %v of %v", active, items)
	}
	abandonRepetition := func(key string) wire.RevokeReply {
		return ask[wire.RevokeReply](nodes[1], wire.VerbRevoke, wire.RevokeRequest{Head: head, AccountID: account, ID: "whs_3", Once: "name", KeyHash: f.hash(key), Untold: true})
	}
	otherKey, _ := f.key(account, "live")
	if r := abandonRepetition(otherKey); r.Failure != wire.Refused {
		t.Errorf("the other node's repetition is given up with another key: %+v", r)
	}
	if s, err := f.config.DB.Subscription(t.Context(), "whs_2"); err != nil || !s.RevokedAt.IsZero() {
		t.Errorf("after that: %+v, %v", s, err)
	}
	if r := abandonRepetition(keyID); r.Failure != "" {
		t.Errorf("the other node gives its repetition up: %+v", r)
	}
	if s, err := f.config.DB.Subscription(t.Context(), "whs_2"); err != nil || s.RevokedAt.IsZero() {
		t.Errorf("none of its answers arrived: %+v, %v", s, err)
	}
	if r := subscribe(0, "whs_4", "d", func(req *wire.SubscribeRequest) { req.Once.Name, req.WithinMS = "late", -1 }); r.Failure != "" {
		t.Errorf("without a bound: %+v", r)
	}
}
