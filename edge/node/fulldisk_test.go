package node

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/durable/durabletest"
)

// TestRevokedOnAFullDisk: a node whose disk takes nothing applies each change within
// the second, whatever becomes of the origin's history. One that cannot be stored
// keeps none of those after it from being applied.
func TestRevokedOnAFullDisk(t *testing.T) {
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
			o.accounts["acc_1"] = store.Account{ID: "acc_1"}
			key, victim := o.addKey("key_1", nil), o.addKey("key_2", nil)
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
			o.push(o.editKey(key, false, func(*store.Key) {}), o.editKey(victim, true, func(k *store.Key) { k.RevokedAt = time.Now() }))
			refused := func() bool { // not for its rate
				status := ask(t, n, "GET", me, victim, "").status
				return status == 401 || status == 500
			}
			eventually(t, "the revoked key is refused", refused)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
			for range 3 { // the node tries again with each beat
				o.push()
				if !refused() {
					t.Error("the revoked key is served again")
				}
			}

			full.Store(false)
			o.push()
			eventually(t, "the node follows", func() bool {
				at := n.store.Cursor()
				return at.History == o.history && at.Seq == int64(len(o.changes))
			})
			ask(t, n, "GET", me, victim, "").want(t, 401, "api_key_revoked")
			ask(t, n, "GET", me, key, "").want(t, 200)
		})
	}
}
