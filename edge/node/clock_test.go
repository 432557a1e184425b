package node

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/local"
)

// TestClockJumps moves the node's clock by hours, both ways: no request is
// refused for it, no bucket refilled beyond its size or emptied, no lead lost or
// named twice, nobody locked out for longer than the rules say, and no record
// trusted for longer than MaxStale.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"forward": 5 * time.Hour, "back": -5 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			o.accounts["acc_1"] = store.Account{ID: "acc_1"}
			key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1000 })
			doomed := o.addKey("key_2", nil)
			var passed secondsPassed
			c := config(t, o)
			c.Now = passed.now
			c.Lockout = local.LockoutRules{Failures: 3, For: 15 * time.Minute}
			n := startNode(t, c)
			move := func() { passed.Add(int64(jump / time.Second)) }
			var ids []string
			lead := func(some int) {
				t.Helper()
				for range some {
					var got struct{ Lead struct{ ID string } }
					if err := json.Unmarshal([]byte(ask(t, n, "POST", newLead, key, someLead).want(t, 201).body), &got); err != nil {
						t.Fatal(err)
					}
					ids = append(ids, got.Lead.ID)
				}
			}
			ask(t, n, "GET", me, doomed, "").want(t, 200)
			lead(200)
			before := remaining(t, ask(t, n, "GET", me, key, "").want(t, 200))

			// While messages of the origin come, the age of records does not depend
			// on the clock.
			move()
			after := remaining(t, ask(t, n, "GET", me, key, "").want(t, 200))
			if after < before-10 || jump < 0 && after > before+100 {
				t.Errorf("%d requests remain after the jump, %d before", after, before)
			}
			ask(t, n, "GET", me, doomed, "").want(t, 200)
			lead(200)
			eventually(t, "the leads are handed over", func() bool { return n.store.Outbox.Len() == 0 })
			o.do(func() {
				if len(o.leads) != len(ids) || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
					t.Errorf("%d leads at the origin, %d accepted", len(o.leads), len(ids))
				}
			})
			o.push(o.editKey(doomed, true, func(k *store.Key) { k.RevokedAt = time.Now() }))
			eventually(t, "the key is refused", func() bool { return ask(t, n, "GET", me, doomed, "").status == 401 })

			// Cut off, a jump either way is longer than records are trusted.
			heartbeat(t, o, n)
			o.stop()
			eventually(t, "the node notices", func() bool { return !n.link.Up() })
			ask(t, n, "GET", me, key, "").want(t, 200)
			move()
			ask(t, n, "GET", me, key, "").want(t, 500)
			o.start()
			eventually(t, "connected again", n.link.Up)
			eventually(t, "served again", func() bool { return ask(t, n, "GET", me, key, "").status == 200 })

			// A lockout outlasts no jump by more than its length.
			for range 3 {
				ask(t, n, "GET", me, "nonsense", "").want(t, 401)
			}
			ask(t, n, "GET", me, key, "").want(t, 403, "too_many_failed_attempts")
			move()
			if jump < 0 {
				a := ask(t, n, "GET", me, key, "").want(t, 403)
				if left, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || left > 15*60 {
					t.Errorf("locked out for %q s", a.header.Get("Retry-After"))
				}
			}
			passed.Add(15*60 + 1)
			ask(t, n, "GET", me, key, "").want(t, 200)
		})
	}
}

// heartbeat returns once the node has heard the origin at the present time of its clock, and
// no message waits for which it could yet take a later one.
func heartbeat(t *testing.T, o *testOrigin, n *Node) {
	t.Helper()
	for range 2 { // the first may be an answer, while what was pushed waits
		last := o.editKey(plaintext("key_2"), true, func(*store.Key) {})
		o.push(last)
		eventually(t, "a heartbeat is heard", func() bool {
			at := n.store.Cursor()
			return at.Seq == last.Seq && n.config.Now().Sub(at.CompleteAt).Abs() < time.Minute
		})
	}
}
