package node

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestBurstOfSubscriptions: an idle key may make its requests at once.
func TestBurstOfSubscriptions(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	key := o.addKey("key_1", nil)
	c := config(t, o)
	c.placeTimeout = time.Minute // or else the machine's speed decides
	n := startNode(t, c)
	var burst sync.WaitGroup
	for i := range 50 { // sandboxes, of which there are 64, do not wait
		burst.Go(func() {
			body := fmt.Sprintf(`{"target_url":"https://h%d.example.com/hook","events":["sentinel.fired"]}`, i)
			ask(t, n, "POST", webhooks+"subscribe", key, body).want(t, 201)
		})
	}
	burst.Wait()
}

// TestSubscribersHoldUpNobody: one partner makes many subscriptions and the origin
// does not answer. Those beyond eight are refused after a second, and another partner
// is served, as is the same one's test key.
func TestSubscribersHoldUpNobody(t *testing.T) {
	t.Parallel()
	const body = `{"target_url":"https://%s.example.com/hook","events":["sentinel.fired"]}`
	o := newOrigin(t)
	o.accounts["acc_2"] = store.Account{ID: "acc_2"}
	many := func(k *store.Key) { k.RateLimit = 10_000 }
	key := o.addKey("key_1", many)
	ofTest := o.addKey("key_3", func(k *store.Key) { many(k); k.Environment = store.Test })
	other := o.addKey("key_2", func(k *store.Key) { many(k); k.AccountID = "acc_2" })
	c := config(t, o)
	const never = 10 * time.Minute
	c.WriteOrigin, c.WriteTimeout, c.callTimeout = never, never, never
	n := startNode(t, c)
	ask(t, n, "DELETE", webhooks+"whs_none", key, "").want(t, 404) // the key is known
	o.do(func() { o.mute[wire.VerbSubscribe] = true })
	const all, most = 100, 8
	asked := o.requests(wire.VerbSubscribe)
	answers := make(chan answer, all)
	var waiting sync.WaitGroup
	for i := range all {
		waiting.Go(func() { answers <- ask(t, n, "POST", webhooks+"subscribe", key, fmt.Sprintf(body, fmt.Sprint("h", i))) })
	}
	for range all - most {
		if a := <-answers; a.status != 500 || a.header.Get("Retry-After") == "" {
			t.Errorf("beyond the bound: %+v", a)
		}
	}
	eventually(t, "the others ask", func() bool { return o.requests(wire.VerbSubscribe) == asked+most })
	ask(t, n, "DELETE", webhooks+"whs_none", other, "").want(t, 404)
	ask(t, n, "DELETE", webhooks+"whs_none", ofTest, "").want(t, 404)
	o.failUnanswered()
	waiting.Wait()
}
