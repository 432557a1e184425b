package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/wire"
	"partneredge/host/hosttest"
	"partneredge/host/wazero"
	"partneredge/store"
	"partneredge/store/local/outbox"
	"partneredge/store/logtest"
)

// arrival of a message at the origin.
type arrival struct {
	node, verb string
	at         time.Time
}

// TestHourWithoutTheOrigin takes the origin away from three nodes for an hour.
// All that they hold is answered all along. When the origin is back they come
// one after the other, each asks once for what it missed, and what they have to
// tell comes in bounded batches: also when the origin cannot tell any more what
// changed, which costs each node one snapshot.
//
// All of it, NATS and its reconnecting too, runs on a clock that moves on when
// nothing else is left to do.
func TestHourWithoutTheOrigin(t *testing.T) { onVirtualClock(t, hourWithoutTheOrigin) }

// TestRejectedLeadsAreOfferedAgain: leads that the origin had no room for are offered
// again soon after it has, however many others come in meanwhile.
func TestRejectedLeadsAreOfferedAgain(t *testing.T) {
	onVirtualClock(t, func(t *testing.T) {
		w := newHour(t)
		const rejected = "lead_rejected"
		w.origin.do(func() { w.origin.refuse[rejected] = "quarantine is full" })
		key := w.origin.addKey("key_1", nil)
		w.start("node_1")
		n := w.nodes[0]
		if err := n.store.Outbox.Append(t.Context(), outbox.Item{ID: rejected, Body: []byte(`{"id":"` + rejected + `"}`)}); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if left := n.store.Outbox.Len(); left != 0 {
			t.Fatalf("%d leads wait, and it was to be set aside", left)
		}
		w.origin.do(func() { delete(w.origin.refuse, rejected) })
		arrived := false
		for minutes := 0; !arrived; minutes++ {
			if minutes > 20 {
				t.Fatal("a lead that was set aside is not offered again")
			}
			n.ask("POST", newLead, key, someLead).want(t, 201)
			w.pass(time.Minute)
			w.origin.push()
			w.origin.do(func() { _, arrived = w.origin.raws[rejected] })
		}
	})
}

// onVirtualClock runs a test on a clock that moves on when nothing else is left to do.
func onVirtualClock(t *testing.T, test func(*testing.T)) {
	if _, err := builtModules(); err != nil { // a process that the virtual clock would wait for
		t.Fatal(err)
	}
	synctest.Test(t, test)
	// NATS's client keeps timers to use again, and these must not come out of
	// the virtual clock's world. A pool is empty after the second collection.
	runtime.GC()
	runtime.GC()
}

// Bounds of what a node sends in one message.
const (
	leadsAtOnce = 200
	spendBatch  = 1000
)

func hourWithoutTheOrigin(t *testing.T) {
	const (
		someNodes, someKeys = 3, 4
		spentKeys           = 2*spendBatch + 500 // let through at each node, besides
		leads               = leadsAtOnce + 100  // taken at each node
	)
	w := newHour(t)
	for i := range someKeys {
		w.keys = append(w.keys, w.origin.addKey(fmt.Sprint("key_", i), nil))
	}
	w.doomed = w.origin.addKey("key_doomed", nil)
	for i := range someNodes {
		w.start(fmt.Sprint("node_", i))
		w.pass(137 * time.Millisecond) // no two start in the same moment
	}
	for _, n := range w.nodes {
		n.ask("GET", me, w.doomed, "").want(t, 200)
	}
	w.served()

	// An hour, for as long as records are trusted without the origin.
	w.origin.stop()
	const minutes = 59
	for range minutes {
		w.pass(time.Minute)
		for _, n := range w.nodes {
			for range leads / minutes {
				n.ask("POST", newLead, w.keys[0], someLead).want(t, 201)
			}
		}
		for _, header := range w.served() {
			if header.Get("Age") == "" {
				t.Fatal("no Age while the origin is away")
			}
		}
	}
	for _, n := range w.nodes {
		for i := range spentKeys {
			if _, err := n.replication.Capabilities().Buckets.Take(t.Context(), fmt.Sprint("spent_", i), 100); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.origin.editKey(w.doomed, true, func(k *store.Key) { k.RevokedAt = time.Now() })
	w.origin.do(func() {
		for range 300 {
			w.origin.change(store.ChangeProfile, "acc_other", false)
		}
	})
	w.pass(59 * time.Second)
	w.back()
	const taken = leads / minutes * minutes
	for _, n := range w.nodes {
		n.most(wire.VerbChanges, 2)
		n.most(wire.VerbKey, 0)
		n.most(wire.VerbLeads, (taken+leadsAtOnce-1)/leadsAtOnce)
		n.most(wire.VerbSpend, (spentKeys+spendBatch-1)/spendBatch+2*backFor)
		n.snapshots(0)
	}
	w.origin.do(func() {
		if len(w.origin.leads) != taken*someNodes {
			t.Errorf("%d leads at the origin, %d accepted", len(w.origin.leads), taken*someNodes)
		}
		for id, times := range w.origin.leads {
			if times != 1 {
				t.Errorf("lead %s was handed over %d times", id, times)
			}
		}
	})

	// Away again, and then it cannot tell what changed.
	w.origin.stop()
	w.pass(time.Minute)
	w.origin.do(func() {
		w.origin.change(store.ChangeProfile, "acc_other", false)
		w.origin.pruned = int64(len(w.origin.changes))
		w.origin.change(store.ChangeProfile, "acc_other", false)
	})
	w.back()
	for _, n := range w.nodes {
		n.most(wire.VerbChanges, 2)
		n.most(wire.VerbKey, someKeys+1)
		n.snapshots(1)
	}
}

// hour is an origin and the nodes that do without it.
type hour struct {
	*testing.T
	origin *testOrigin
	engine *hosttest.Shared
	nodes  []*hourNode
	keys   []string
	doomed string // is revoked while the origin is away

	arrived []arrival // guarded by the origin's lock
}

// newHour starts the origin.
func newHour(t *testing.T) *hour {
	// What the engine waits by is of this clock's world, and so not for others.
	w := &hour{T: t, origin: makeOrigin(t), engine: hosttest.Share(wazero.New, cacheDir)}
	t.Cleanup(func() {
		if err := w.engine.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	w.origin.memory, w.origin.url = true, "nats://127.0.0.1:4222"
	w.origin.accounts["acc_1"] = store.Account{ID: "acc_1"}
	w.origin.heard = w.hear
	w.origin.start()
	t.Cleanup(func() {
		w.origin.stop()
		w.pass(time.Minute) // for those who look only now and then whether they are to end
	})
	return w
}

// hourNode is a node without listeners.
type hourNode struct {
	*Node
	hour *hour
	api  http.Handler
	log  logtest.Buffer
}

// pass lets virtual time go by, and all that is due by then be done.
func (w *hour) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *hour) start(id string) {
	w.Helper()
	n := &hourNode{hour: w}
	c := config(w.T, w.origin)
	c.Engine = w.engine.New
	c.Credentials, c.dialer, c.Log = w.origin.enrol(id), w.origin, slog.New(slog.NewTextHandler(&n.log, nil))
	c, err := c.withDefaults()
	if err != nil {
		w.Fatal(err)
	}
	n.Node = newNode(c)
	w.Cleanup(func() { stopNode(w.T, n.Node) })
	if err := n.open(w.Context()); err != nil {
		w.Fatal(err)
	}
	n.ready.Store(true)
	n.api = n.partnerAPI(n.releases, n.releases.Docs)
	w.nodes = append(w.nodes, n)
}

func (n *hourNode) ask(method, path, key, body string) answer {
	n.hour.Helper()
	r := httptest.NewRequestWithContext(n.hour.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	n.api.ServeHTTP(w, r)
	return answer{w.Code, w.Header(), w.Body.String()}
}

// served asks each node with each key, and holds that all are answered.
func (w *hour) served() (headers []http.Header) {
	w.Helper()
	for _, n := range w.nodes {
		for _, key := range w.keys {
			headers = append(headers, n.ask("GET", me, key, "").want(w.T, 200).header)
		}
	}
	return headers
}

// hear is called with each message that reaches the origin, under its lock.
func (w *hour) hear(node, verb string, data []byte) {
	w.arrived = append(w.arrived, arrival{node, verb, time.Now()})
	switch verb {
	case wire.VerbLeads:
		if some := len(read[wire.LeadsRequest](w.T, data).Leads); some > leadsAtOnce {
			w.Errorf("%d leads in one request", some)
		}
	case wire.VerbSpend:
		if some := len(read[wire.Spend](w.T, data).Keys); some > spendBatch {
			w.Errorf("%d keys in one report", some)
		}
	}
}

// backFor is for how many seconds the origin is watched when it is back.
const backFor = 10

// back brings the origin back, goes on asking, and holds that all nodes are soon
// in step, and that no two of them came in the same moment.
func (w *hour) back() {
	w.Helper()
	w.origin.do(func() { w.arrived = nil })
	for _, n := range w.nodes {
		n.log.Reset()
	}
	w.origin.start()
	asked := map[*hourNode]bool{}
	for range backFor * 10 {
		w.pass(100 * time.Millisecond)
		w.origin.push()
		for _, n := range w.nodes {
			if n.link.Up() && !asked[n] {
				asked[n] = true
				n.ask("GET", me, w.doomed, "").want(w.T, 401)
			}
		}
	}
	if len(asked) != len(w.nodes) {
		w.Fatalf("%d nodes came back, of %d", len(asked), len(w.nodes))
	}
	who := map[time.Time]arrival{}
	w.origin.do(func() {
		for _, a := range w.arrived {
			if a.verb == wire.VerbKey {
				continue // for a request of this test, which asks all in the same moment
			}
			if other, ok := who[a.at]; ok && other.node != a.node {
				w.Errorf("%v and %v in the same moment", other, a)
			}
			who[a.at] = a
		}
	})
	for _, header := range w.served() {
		if header.Get("Age") != "" {
			w.Error("an Age with the origin there")
		}
	}
	w.pass(time.Second)
	for _, n := range w.nodes {
		if leads, spent := n.store.Outbox.Len(), must(n.store.Buckets.Unacked())(w.T); leads+len(spent) != 0 {
			w.Errorf("%s: %d leads and %d keys are not told yet", n.ID(), leads, len(spent))
		}
	}
}

// most holds how many messages of a verb the node sent since the origin is back.
func (n *hourNode) most(verb string, want int) {
	n.hour.Helper()
	n.hour.origin.mu.Lock()
	defer n.hour.origin.mu.Unlock()
	got := 0
	for _, a := range n.hour.arrived {
		if a.node == n.ID() && a.verb == verb {
			got++
		}
	}
	if got > want {
		n.hour.Errorf("%s: %d messages %s, at most %d are needed", n.ID(), got, verb, want)
	}
}

// snapshots holds how often the node gave up what it held since the origin is
// back.
func (n *hourNode) snapshots(want int) {
	n.hour.Helper()
	if got := strings.Count(n.log.String(), "asking for every record again"); got != want {
		n.hour.Errorf("%s: %d snapshots, want %d", n.ID(), got, want)
	}
}
