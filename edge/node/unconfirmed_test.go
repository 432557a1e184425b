package node

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/local"
)

// loseSubscribe has the origin make the subscription that send asks for, and the node get no
// answer of it. It returns what send does.
func (o *testOrigin) loseSubscribe(send func() answer) answer {
	o.t.Helper()
	o.do(func() {
		o.mute[wire.VerbSubscribe] = true
		o.heard = func(node, verb string, data []byte) {
			if verb == wire.VerbSubscribe {
				_, _ = o.answer(node, verb, data)
			}
		}
	})
	asked := o.requests(wire.VerbSubscribe)
	sent := make(chan answer, 1)
	go func() { sent <- send() }()
	eventually(o.t, "the subscription is asked for", func() bool { return o.requests(wire.VerbSubscribe) > asked })
	o.do(func() {
		o.heard = nil
		delete(o.mute, wire.VerbSubscribe)
	})
	o.failUnanswered()
	return <-sent
}

// TestSubscriptionsThatNobodyKnowsAreRevoked: a subscription that the origin made
// and the partner was not told of is not left active, whether its answer was lost
// or its node died.
func TestSubscriptionsThatNobodyKnowsAreRevoked(t *testing.T) {
	t.Parallel()
	const body = `{"target_url":"https://example.com/hook","events":["sentinel.fired"]}`
	o := newOrigin(t)
	key := o.addKey("key_1", nil)
	c := config(t, o)
	n := startNode(t, c)
	o.loseSubscribe(func() answer { return ask(t, n, "POST", webhooks+"subscribe", key, body) }).want(t, 500, "internal_error")
	allRevoked := func(want int) func() bool {
		return func() (all bool) {
			o.do(func() {
				all = len(o.subs) == want
				for _, s := range o.subs {
					all = all && !s.RevokedAt.IsZero()
				}
			})
			return all
		}
	}
	eventually(t, "it is revoked", allRevoked(1))
	eventually(t, "it is forgotten", func() bool { left, err := n.store.Unconfirmed.All(); return err == nil && len(left) == 0 })
	ask(t, n, "POST", webhooks+"subscribe", key, body).want(t, 201)
	if left, err := n.store.Unconfirmed.All(); err != nil || len(left) != 0 {
		t.Errorf("one that was answered is still remembered: %+v, %v", left, err)
	}
	stopNode(t, n)

	o.do(func() {
		clear(o.subs)
		o.subs["whs_crash"] = store.Subscription{ID: "whs_crash", AccountID: "acc_1"}
	})
	state, err := local.Open(local.Config{Dir: filepath.Join(c.Data, "state")})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"whs_crash", "whs_never"} {
		if err := state.Unconfirmed.Add(local.UnconfirmedSubscription{ID: id, AccountID: "acc_1", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := state.Close(); err != nil {
		t.Fatal(err)
	}
	n = startNode(t, c)
	eventually(t, "it is revoked after a restart", allRevoked(1))
	eventually(t, "the other is asked for", func() bool {
		left, err := n.store.Unconfirmed.All()
		return err == nil && len(left) == 1 && left[0].ID == "whs_never"
	})
}

// TestSubscribeOnceAfterNoAnswer: a request with an idempotency key that got no answer
// is sent again, and gets what the origin made the first time; it is not revoked.
func TestSubscribeOnceAfterNoAnswer(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	key := o.addKey("key_1", nil)
	c := config(t, o)
	n := startNode(t, c)
	const body = `{"target_url":"https://example.com/hook","events":["sentinel.fired"]}`
	send := func() answer { return askOnce(t, n, webhooks+"subscribe", key, "order 7", body) }
	o.loseSubscribe(send).want(t, 500, "internal_error")
	var first store.Subscription
	o.do(func() {
		for _, s := range o.subs {
			first = s
		}
	})
	for range 2 {
		send().want(t, 201, `"id":"`+first.ID+`"`, `"secret":"`+first.Secret+`"`)
	}
	o.do(func() {
		if len(o.subs) != 1 || !o.subs[first.ID].RevokedAt.IsZero() {
			t.Errorf("the origin has %d subscriptions", len(o.subs))
		}
	})
}

// TestSubscriptionThatWasToldIsKept: while a subscription that failed is revoked, another is
// answered, which waited for its answer when the node looked for what has failed.
func TestSubscriptionThatWasToldIsKept(t *testing.T) {
	t.Parallel()
	const body = `{"target_url":"https://example.com/hook","events":["sentinel.fired"]}`
	const last = "whs_zzz" // of which the origin knows nothing
	o := newOrigin(t)
	key := o.addKey("key_1", nil)
	c := config(t, o)
	c.WriteOrigin = 5 * time.Minute
	n := startNode(t, c)
	unconfirmed := func(want int) func() bool {
		return func() bool { all, err := n.store.Unconfirmed.All(); return err == nil && len(all) == want }
	}
	answers, revoking, told := make(chan struct{}), make(chan string, 10), make(chan struct{})
	o.do(func() {
		o.heard = func(_, verb string, data []byte) {
			if verb == wire.VerbRevoke {
				revoking <- read[wire.RevokeRequest](t, data).ID
			}
		}
		o.hold = func(verb string) {
			switch verb {
			case wire.VerbSubscribe:
				<-answers
			case wire.VerbRevoke:
				<-told
			}
		}
	})

	ctx, hangUp := context.WithCancel(t.Context())
	hungUp := make(chan struct{})
	go func() {
		defer close(hungUp)
		req, err := http.NewRequestWithContext(ctx, "POST", n.URL()+webhooks+"subscribe", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+key)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("who hung up was answered %d", resp.StatusCode)
		}
	}()
	eventually(t, "the first is asked for", unconfirmed(1))
	answered := make(chan answer, 1)
	go func() { answered <- ask(t, n, "POST", webhooks+"subscribe", key, body) }()
	eventually(t, "the second is asked for", unconfirmed(2))
	if err := n.store.Unconfirmed.Add(local.UnconfirmedSubscription{ID: last, AccountID: "acc_1", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	hangUp()
	<-hungUp
	revoked := []string{<-revoking}
	close(answers)
	(<-answered).want(t, 201)
	close(told)
	for revoked[len(revoked)-1] != last {
		revoked = append(revoked, <-revoking)
	}
	if len(revoked) != 2 {
		t.Errorf("revoked are %v, one of which the partner was told of", revoked)
	}
}
