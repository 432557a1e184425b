package node

import (
	"testing"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestUsageIsReported: a node reports what a key was used for, and a restarted one goes
// on in another counter, so that nothing counts twice or is forgotten.
func TestUsageIsReported(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 3 })
	o.addKey("key_unused", nil)
	c := config(t, o)
	requests, limited := int64(0), int64(0)
	use := func(n *Node) {
		t.Helper()
		for range 5 {
			requests++
			if ask(t, n, "GET", me, key, "").status == 429 {
				limited++
			}
		}
	}
	n := startNode(t, c)
	use(n)
	stopNode(t, n)
	if limited == 0 {
		t.Fatal("no request was limited")
	}
	n = startNode(t, c)
	use(n)
	o.stop()
	eventually(t, "the node notices", func() bool { return !n.link.Up() })
	use(n)
	o.start()
	eventually(t, "all that the key was used for is reported", func() bool {
		got, boots := wire.UsageKey{}, map[string]wire.UsageKey{}
		o.do(func() {
			for _, report := range o.usage {
				for id, k := range report.Keys {
					if id != "key_1" || o.keys[string(k.KeyHash)].ID != id || report.Day == 0 || k.LastUsed == 0 {
						t.Errorf("reported %+v of %s", report, id)
					}
					boots[report.Boot] = k // a counter only rises
				}
			}
		})
		for _, k := range boots {
			got.Requests, got.Limited = got.Requests+k.Requests, got.Limited+k.Limited
		}
		return len(boots) >= 2 && got.Requests == requests && got.Limited == limited
	})
}
