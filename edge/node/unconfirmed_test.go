package node

import (
	"path/filepath"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/local"
)

// TestSubscriptionsThatNobodyKnowsAreRevoked: a subscription that the origin made
// and the partner was not told of is not left active, whether its answer was lost
// or its node died.
func TestSubscriptionsThatNobodyKnowsAreRevoked(t *testing.T) {
	o := newOrigin(t)
	key := o.addKey("key_1", nil)
	c := config(t, o)
	c.WriteOrigin = 300 * time.Millisecond
	n := startNode(t, c)
	answer := make(chan struct{})
	o.do(func() {
		o.hold = func(verb string) {
			if verb == wire.VerbSubscribe {
				<-answer
			}
		}
	})
	ask(t, n, "POST", webhooks+"subscribe", key, `{"target_url":"https://example.com/hook","events":["sentinel.fired"]}`).want(t, 500, "internal_error")
	close(answer)
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
	soon(t, "it is revoked", allRevoked(1))
	soon(t, "it is forgotten", func() bool { left, err := n.store.Unconfirmed.All(); return err == nil && len(left) == 0 })
	ask(t, n, "POST", webhooks+"subscribe", key, `{"target_url":"https://example.com/hook","events":["sentinel.fired"]}`).want(t, 201)
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
	soon(t, "it is revoked after a restart", allRevoked(1))
	soon(t, "the other is asked for", func() bool {
		left, err := n.store.Unconfirmed.All()
		return err == nil && len(left) == 1 && left[0].ID == "whs_never"
	})
}
