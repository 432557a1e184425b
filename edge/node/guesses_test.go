package node

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/wasm/httpfront"
)

// TestMadeUpKeysHoldUpNobody: requests with made-up keys come from many networks,
// then many from one, and the origin says nothing. They take no sandbox while they
// wait, and those beyond the bounds are refused at once.
func TestMadeUpKeysHoldUpNobody(t *testing.T) {
	t.Parallel()
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
			c.ReadOrigin = 10 * time.Minute
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
			eventually(t, "the others ask", func() bool { return o.requests(wire.VerbKey) == asked+test.waiting })
			for range 100 {
				began := time.Now()
				ask(t, n, "GET", me, key, "").want(t, 200)
				if took := time.Since(began); took > time.Minute {
					t.Fatalf("a held key took %v", took)
				}
			}
			eventually(t, "no sandbox is busy", func() bool {
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

// TestHangUpsAreCounted: a client that hangs up before its made-up key is refused is locked out
// after as many as one that stays, and its requests are nobody's errors.
func TestHangUpsAreCounted(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	ask(t, n, "GET", me, key, "").want(t, 200)
	gone := func() int {
		return int(testutil.ToFloat64(n.metrics.requests.WithLabelValues("gate", fmt.Sprint(httpfront.ClientGone))))
	}
	answers := make(chan struct{})
	t.Cleanup(func() { close(answers) })
	o.do(func() {
		o.hold = func(verb string) {
			if verb == wire.VerbKey {
				<-answers
			}
		}
	})
	for i := range 20 {
		asked := o.requests(wire.VerbKey)
		conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", me, plaintext(fmt.Sprint("made up ", i)))
		eventually(t, "the origin is asked", func() bool { return o.requests(wire.VerbKey) > asked })
		conn.Close()
		eventually(t, "the request has ended", func() bool { return gone() == i+1 })
		answers <- struct{}{}
	}
	eventually(t, "the client is locked out", func() bool { return ask(t, n, "GET", me, key, "").status == 403 })
}

// TestBurstOfAKeyThatIsNotHeld: a key's first requests at a node come at once, and
// all wait for one lookup.
func TestBurstOfAKeyThatIsNotHeld(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// crowd is a node that asks a slow origin for many keys at once.
type crowd struct {
	o     *testOrigin
	n     *Node
	round int
}

func newCrowd(t *testing.T) *crowd {
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	c := config(t, o)
	c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.ReadOrigin = time.Minute
	return &crowd{o: o, n: startNode(t, c)}
}

// member is a request of a crowd: its key, and what is to come of it.
type member struct {
	key    string
	client string
	status int
	holds  string // what the answer's body holds
}

// members returns requests with keys that the node has not seen: of four one is known, one
// revoked and two are made up; every other key comes twice.
func (c *crowd) members() (all []member) {
	c.round++
	for i := range 40 {
		name := fmt.Sprint("key_", c.round, "_", i)
		m := member{plaintext(name), fmt.Sprintf("198.51.%d.7", i), 401, `"unknown_api_key"`}
		switch i % 4 {
		case 0:
			c.o.addKey(name, nil)
			m.status, m.holds = 200, `"agent"`
		case 1:
			c.o.addKey(name, func(k *store.Key) { k.RevokedAt = time.Now().Add(-time.Hour) })
			m.holds = `"api_key_revoked"`
		}
		for range 1 + i%2 {
			all = append(all, m)
		}
	}
	return all
}

// ask sends all requests while the origin answers for no key, and returns the answers.
func (c *crowd) ask(t *testing.T, all []member) []answer {
	answers := make([]answer, len(all))
	hold := make(chan struct{})
	c.o.do(func() {
		c.o.hold = func(verb string) {
			if verb == wire.VerbKey {
				<-hold
			}
		}
	})
	missed := c.n.missed()
	var waiting sync.WaitGroup
	for i, m := range all {
		waiting.Go(func() { answers[i] = c.send(t, m) })
	}
	eventually(t, "all keys are looked up", func() bool { return c.n.missed() == missed+len(all) })
	c.o.do(func() { c.o.hold = nil })
	close(hold)
	waiting.Wait()
	return answers
}

func (c *crowd) send(t *testing.T, m member) answer {
	req, err := http.NewRequestWithContext(t.Context(), "GET", c.n.URL()+me, nil)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	req.Header.Set("Authorization", "Bearer "+m.key)
	req.Header.Set("X-Forwarded-For", m.client)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// missed returns how many requests had a key that the node did not hold.
func (n *Node) missed() int {
	return int(testutil.ToFloat64(n.metrics.keys.WithLabelValues("miss")))
}

func (m member) want(t *testing.T, a answer) {
	t.Helper()
	if a.status != m.status || !strings.Contains(a.body, m.holds) {
		t.Errorf("%d %s, want %d with %s", a.status, a.body, m.status, m.holds)
	}
}

// TestManyKeysInAQuestion: while the origin is slow one question is for many keys.
// Whoever's key is known is answered, and whoever's is revoked or made up is told so, at
// an origin that does not know such questions as well.
func TestManyKeysInAQuestion(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"origin": false, "older origin": true} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			largest := 0 // question
			c.o.do(func() {
				c.o.older = old
				c.o.heard = func(_, verb string, data []byte) {
					if verb == wire.VerbKey {
						largest = max(largest, 1+len(read[wire.KeyRequest](t, data).More))
					}
				}
			})
			for together := false; !together; {
				all := c.members()
				for i, a := range c.ask(t, all) {
					all[i].want(t, a)
				}
				c.o.do(func() { together = largest > 1 })
			}
			if asked := largest; asked > 1+wire.MaxMoreKeys {
				t.Errorf("a question was for %d keys", asked)
			}
		})
	}
}

// TestSpoiltAnswersOfManyKeys: an origin fails in the middle, or answers what cannot be
// an answer. Those who wait for it get their 500, and the next question is asked anew.
func TestSpoiltAnswersOfManyKeys(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*wire.KeyReply) wire.Failure{
		"a failure": func(*wire.KeyReply) wire.Failure { return wire.Unavailable },
		"too few":   func(r *wire.KeyReply) wire.Failure { r.Keys = r.Keys[1:]; return "" },
		"too many":  func(r *wire.KeyReply) wire.Failure { r.Keys = append(r.Keys, nil); return "" },
		"nothing":   func(r *wire.KeyReply) wire.Failure { *r = wire.KeyReply{}; return "" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			for spoilt := 0; spoilt == 0; {
				c.o.do(func() {
					c.o.spoilKeys = func(r *wire.KeyReply) wire.Failure {
						spoilt += len(r.Keys)
						return spoil(r)
					}
				})
				all := c.members()
				answers := c.ask(t, all)
				c.o.do(func() { c.o.spoilKeys = nil })
				failed := 0
				for i, a := range answers {
					if a.status != http.StatusInternalServerError {
						all[i].want(t, a)
						continue
					}
					if failed++; a.header.Get("Retry-After") == "" {
						t.Errorf("%d %s, without Retry-After", a.status, a.body)
					}
				}
				if (failed > 0) != (spoilt > 0) || failed < spoilt {
					t.Errorf("%d failed, of %d keys in spoilt answers", failed, spoilt)
				}
				for _, m := range all {
					m.want(t, c.send(t, m))
				}
			}
		})
	}
}

// TestUnreadKeyFailsAlone: of many keys in a question the origin cannot read some. Their
// partners get a failure that says to try again, also when they do, and no lookup of
// another's key fails. Once the origin reads them they are served.
func TestUnreadKeyFailsAlone(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	unread := map[string]bool{} // by what the node asks for
	for together := false; !together; {
		all := c.members()
		for i := range all {
			if i%5 == 0 {
				unread[all[i].hash()] = true
			}
		}
		c.o.do(func() {
			c.o.unread = unread
			c.o.heard = func(_, verb string, data []byte) {
				if verb == wire.VerbKey {
					req := read[wire.KeyRequest](t, data)
					together = together || req.Partial && len(req.More) > 0
				}
			}
		})
		failing := func(m member, a answer) {
			t.Helper()
			if !unread[m.hash()] {
				m.want(t, a)
			} else if a.status != http.StatusInternalServerError || a.header.Get("Retry-After") == "" {
				t.Errorf("an unread key: %d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
			}
		}
		for i, a := range c.ask(t, all) {
			failing(all[i], a)
		}
		for _, m := range all {
			failing(m, c.send(t, m))
		}
		c.o.do(func() { c.o.unread, c.o.heard = nil, nil })
		for _, m := range all {
			m.want(t, c.send(t, m))
		}
	}
}

// hash returns what the node asks for the member's key by.
func (m member) hash() string {
	hash := sha256.Sum256([]byte(m.key))
	return string(hash[:])
}
