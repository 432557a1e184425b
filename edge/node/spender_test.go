package node

import (
	"strconv"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

// remaining returns the tokens that are left of the key's limit, by the answer.
func remaining(t *testing.T, a answer) int {
	t.Helper()
	n, err := strconv.Atoi(a.header.Get("x-ratelimit-remaining"))
	if err != nil {
		t.Fatalf("x-ratelimit-remaining: %v", err)
	}
	return n
}

// stopClocks stops the clocks of a node that is yet to be started and of the origin's
// rate limits: no token comes back, however long the test takes.
func stopClocks(o *testOrigin, c *Config) {
	at := time.Now()
	c.Now = func() time.Time { return at }
	o.do(func() { o.now = c.Now })
}

func TestSpendingIsSharedWithOtherNodes(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	c := config(t, o)
	stopClocks(o, &c)
	n := startNode(t, c)
	for range 20 {
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	eventually(t, "the origin knows what was spent", func() bool { return o.spend("key_1", 0) == 20 })

	o.spend("key_1", 90) // elsewhere
	ask(t, n, "GET", me, key, "")
	eventually(t, "the node knows what was spent elsewhere", func() bool {
		return remaining(t, ask(t, n, "GET", me, key, "")) < 10
	})
	eventually(t, "the limit is reached", func() bool { return ask(t, n, "GET", me, key, "").status == 429 })
}

// A report that is lost is sent again; what is not confirmed when the node ends
// is reported after its next start; neither holds up a request.
func TestSpendingIsReportedUntilItIsConfirmed(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	c := config(t, o)
	stopClocks(o, &c)
	n := startNode(t, c)
	o.do(func() { o.mute[wire.VerbSpend] = true })
	began := time.Now()
	for range 20 {
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("20 requests took %v: they wait for the origin", took)
	}
	eventually(t, "reports that nobody answers", func() bool { return o.requests(wire.VerbSpend) > 2 })
	o.do(func() { o.mute[wire.VerbSpend] = false })
	eventually(t, "it is sent again", func() bool { return o.spend("key_1", 0) == 20 })

	o.stop()
	eventually(t, "the node notices", func() bool { return !n.link.Up() })
	for range 20 {
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	stopNode(t, n)
	n = startNode(t, c)
	if left := remaining(t, ask(t, n, "GET", me, key, "")); left != 100-41 {
		t.Errorf("%d remain after a restart", left)
	}
	o.start()
	eventually(t, "the rest is reported", func() bool { return o.spend("key_1", 0) == 41 })
}

// What another version says that this one cannot read is left alone.
func TestSharesOfAnotherVersion(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	c := config(t, o)
	stopClocks(o, &c)
	n := startNode(t, c)
	ask(t, n, "GET", me, key, "").want(t, 200)
	boot := n.store.Buckets.Boot()
	say := func(text string) {
		t.Helper()
		if err := o.conn.Publish(wire.ToNode+testNode+"."+wire.VerbShare, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the first report is confirmed", func() bool { k, err := n.store.Buckets.Unacked(); return err == nil && len(k) == 0 })
	o.do(func() { o.mute[wire.VerbSpend] = true })
	all := `"keys":{"key_1":{"m":6000000000,"c":1,"n":1}}}`
	say(`{"v":9,"boot":"` + boot + `",` + all)
	say(`{"v":1,"boot":"another life",` + all)
	say(`no message`)
	say(`{"v":2,"boot":"` + boot + `","new":{"x":1},"keys":{"key_1":{"m":3000000000,"c":1,"n":1,"z":7}}}`)
	looks := 0 // each of which spends a token
	eventually(t, "the newer version's share is taken in", func() bool {
		looks++
		left := remaining(t, ask(t, n, "GET", me, key, "")) + looks
		if left < 25 {
			t.Fatalf("%d remain: what cannot be read was taken in", left)
		}
		return left < 75
	})
}
