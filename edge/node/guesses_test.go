package node

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/wasm/httpfront"
)

// TestMadeUpKeysHoldUpNobody: requests with made-up keys come from many networks,
// then many from one, and the origin says nothing. They take no sandbox while they
// wait, and those beyond the bounds are refused at once.
func TestMadeUpKeysHoldUpNobody(t *testing.T) {
	for _, test := range []struct {
		name    string
		client  func(i int) string
		waiting int
	}{
		{"from many networks", func(i int) string { return fmt.Sprintf("198.%d.%d.7", i/250, i%250) }, 128},
		{"from one network", func(i int) string { return fmt.Sprintf("198.51.100.%d", i%250) }, 16},
		{"from one network of IPv6", func(i int) string { return fmt.Sprintf("2001:db8:1:%x::7", i) }, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOrigin(t)
			o.accounts["acc_1"] = store.Account{ID: "acc_1"}
			key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 10_000 })
			c := config(t, o)
			c.ReadOrigin = time.Minute
			c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			n := startNode(t, c)
			ask(t, n, "GET", me, key, "").want(t, 200)
			o.do(func() { o.mute[wire.VerbKey] = true })
			asked := o.requests(wire.VerbKey)

			ctx, cancel := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			defer waiting.Wait()
			defer cancel()
			const madeUp = 200
			refused := make(chan *http.Response, madeUp)
			for i := range madeUp {
				waiting.Go(func() {
					req, err := http.NewRequestWithContext(ctx, "GET", n.URL()+me, nil)
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+plaintext(fmt.Sprint("made up ", i)))
					req.Header.Set("X-Forwarded-For", test.client(i))
					resp, err := http.DefaultClient.Do(req)
					if err == nil {
						resp.Body.Close()
						refused <- resp
					} else if ctx.Err() == nil {
						t.Error(err)
					}
				})
			}
			for range madeUp - test.waiting {
				if resp := <-refused; resp.StatusCode != 500 || resp.Header.Get("Retry-After") == "" {
					t.Fatalf("beyond the bounds: %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
				}
			}
			soon(t, "the others ask", func() bool { return o.requests(wire.VerbKey) == asked+test.waiting })
			for range 100 {
				began := time.Now()
				ask(t, n, "GET", me, key, "").want(t, 200)
				if took := time.Since(began); took > 5*time.Second {
					t.Fatalf("a held key took %v", took)
				}
			}
			soon(t, "no sandbox is busy", func() bool {
				busy := 0
				for _, stats := range n.runtime.Stats() {
					busy += stats.Sandboxes - stats.Idle
				}
				return busy == 0
			})
			if len(refused) > 0 {
				t.Errorf("%d more were refused", len(refused))
			}
		})
	}
}

// TestBurstOfAKeyThatIsNotHeld: a key's first requests at a node come at once, and
// all wait for one lookup.
func TestBurstOfAKeyThatIsNotHeld(t *testing.T) {
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	var burst sync.WaitGroup
	for range 100 {
		burst.Go(func() {
			if a := ask(t, n, "GET", me, key, ""); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	burst.Wait()
	if asked := o.requests(wire.VerbKey); asked != 1 {
		t.Errorf("the key was asked for %d times", asked)
	}
}

// TestPreflightsAskTheOriginNothing: a preflight is refused whatever key it carries, so a
// stranger, whom no lockout stops here, cannot have made-up ones looked up.
func TestPreflightsAskTheOriginNothing(t *testing.T) {
	o := newOrigin(t)
	n := startNode(t, config(t, o))
	for i := range 30 {
		req := must(http.NewRequestWithContext(t.Context(), "OPTIONS", n.URL()+me, nil))(t)
		req.Header.Set("Authorization", "Bearer "+plaintext(fmt.Sprint("made up ", i)))
		req.Header.Set("Origin", "https://shop.example")
		req.Header.Set("Access-Control-Request-Method", "GET")
		resp := must(http.DefaultClient.Do(req))(t)
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden || resp.Header.Get(httpfront.RequestID) == "" {
			t.Fatalf("refused with %d %v", resp.StatusCode, resp.Header)
		}
	}
	if asked := o.requests(wire.VerbKey); asked != 0 {
		t.Errorf("%d keys of preflights were asked for", asked)
	}
}
