package node

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/durable/durabletest"
)

// TestReadsOnAFullDisk: a node whose disk takes nothing applies each change within the
// second, whatever becomes of the origin's history, asks for what it does not hold, and
// stays in step with the origin.
func TestReadsOnAFullDisk(t *testing.T) {
	for _, test := range []struct {
		name    string
		becomes func(o *testOrigin)
	}{
		{"same history", func(*testOrigin) {}},
		{"history goes on", func(o *testOrigin) { o.history, o.goesOn = "his_2", map[string]int64{"his_1": 3} }},
		{"other history", func(o *testOrigin) {
			o.changes = o.changes[:2]
			o.history, o.goesOn = "his_2", map[string]int64{"his_1": 2}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOrigin(t)
			o.history = "his_1"
			o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "before"}
			often := func(k *store.Key) { k.RateLimit = 10_000 }
			key, victim := o.addKey("key_1", often), o.addKey("key_2", often)
			c := config(t, o)
			state := filepath.Join(c.Data, "state")
			if err := os.MkdirAll(state, 0o700); err != nil {
				t.Fatal(err)
			}
			full := new(atomic.Bool)
			disk := durabletest.New(t, state)
			disk.Before(func(op durabletest.Op) error {
				if full.Load() && (op.Kind == durabletest.Write || op.Kind == durabletest.Make) {
					return syscall.ENOSPC
				}
				return nil
			})
			c.FS = disk
			n := startNode(t, c)
			ask(t, n, "GET", me, key, "").want(t, 200)
			ask(t, n, "GET", me, victim, "").want(t, 200)
			o.push(o.editKey(key, false, func(*store.Key) {}))
			eventually(t, "the change is known", func() bool { return n.store.Cursor().Seq == 3 })
			ask(t, n, "GET", me, key, "").want(t, 200)

			full.Store(true)
			o.do(func() { test.becomes(o) })
			began := time.Now()
			inStep := func() bool {
				at := n.store.Cursor()
				return at.History == o.history && at.Seq == int64(len(o.changes)) && at.CompleteAt.After(began)
			}
			o.push(o.editKey(key, false, func(*store.Key) {}), o.editKey(victim, true, func(k *store.Key) { k.RevokedAt = time.Now() }))
			eventually(t, "the revoked key is refused", func() bool { return ask(t, n, "GET", me, victim, "").status == 401 })
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			var renamed store.Change
			o.do(func() {
				o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "after"}
				renamed = o.change(store.ChangeProfile, "acc_1", false)
			})
			o.push(renamed)
			eventually(t, "the new name", func() bool { return strings.Contains(ask(t, n, "GET", me, key, "").want(t, 200).body, "after") })
			stranger := o.addKey("key_3", often)
			for range 3 {
				ask(t, n, "GET", me, stranger, "").want(t, 200)
				ask(t, n, "GET", me, victim, "").want(t, 401, "api_key_revoked")
				o.push()
			}
			eventually(t, "the node is in step on a full disk", inStep)
			if !n.store.InMemory() || n.replication.Stale() {
				t.Errorf("in memory %t, stale %t", n.store.InMemory(), n.replication.Stale())
			}

			full.Store(false)
			eventually(t, "the disk has everything", func() bool { return !n.store.InMemory() })
			stopNode(t, n)
			n = startNode(t, c)
			eventually(t, "the node is in step after a restart", inStep)
			ask(t, n, "GET", me, victim, "").want(t, 401, "api_key_revoked")
			ask(t, n, "GET", me, key, "").want(t, 200, "after")
		})
	}
}
