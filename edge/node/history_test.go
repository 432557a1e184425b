package node

import (
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestAnotherHistory: the origin's changes have the numbers that the node has seen,
// but are others, since its database went back and went on from there.
func TestAnotherHistory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		heard func(o *testOrigin, n *Node) // how the node comes to know of it
	}{
		{"by a beat", func(o *testOrigin, _ *Node) { o.push() }},
		{"by a change", func(o *testOrigin, _ *Node) {
			var c store.Change
			o.do(func() { c = o.change(store.ChangeProfile, "acc_2", false) })
			o.push(c)
		}},
		{"by a new connection", func(o *testOrigin, n *Node) {
			o.stop()
			eventually(o.t, "the node notices", func() bool { return !n.link.Up() })
			o.start()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOrigin(t)
			o.history = "his_1"
			o.accounts["acc_1"] = store.Account{ID: "acc_1"}
			key, victim := o.addKey("key_1", nil), o.addKey("key_2", nil)
			n := startNode(t, config(t, o))
			ask(t, n, "GET", me, key, "").want(t, 200)
			ask(t, n, "GET", me, victim, "").want(t, 200)
			o.push(o.editKey(key, false, func(*store.Key) {}))
			eventually(t, "the change is known", func() bool { return n.store.Cursor().Seq == 3 })

			// The third change was lost, and now there is another.
			o.do(func() {
				o.changes = o.changes[:2]
				o.history, o.goesOn = "his_2", map[string]int64{"his_1": 2}
			})
			o.editKey(victim, true, func(k *store.Key) { k.RevokedAt = time.Now() })
			test.heard(o, n)
			eventually(t, "the node follows", func() bool { return n.store.Cursor().History == "his_2" })
			ask(t, n, "GET", me, victim, "").want(t, 401, "api_key_revoked")
			eventually(t, "the other key is served", func() bool { return ask(t, n, "GET", me, key, "").status == 200 })
		})
	}
}

// TestHistoryThatGoesOn: an origin that was started again, one that is too old to
// name a history, and a restart of the node have it ask for nothing again.
func TestHistoryThatGoesOn(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	c := config(t, o)
	n := startNode(t, c)
	ask(t, n, "GET", me, key, "").want(t, 200)
	asked := o.requests(wire.VerbKey)
	for _, history := range []string{"his_1", "his_2", "", "his_3"} {
		o.do(func() {
			o.goesOn = map[string]int64{"his_1": 1, "his_2": 1}
			o.history = history
		})
		o.push()
		if history != "" {
			eventually(t, "the node follows "+history, func() bool { return n.store.Cursor().History == history })
		}
		stopNode(t, n)
		n = startNode(t, c)
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	if now := o.requests(wire.VerbKey); now != asked {
		t.Errorf("the key was asked for %d times more", now-asked)
	}
	if at := n.store.Cursor(); at.History != "his_3" || at.Epoch > 1 {
		t.Errorf("the cursor is %+v", at)
	}

	// It is known after a restart, too.
	stopNode(t, n)
	o.editKey(key, true, func(k *store.Key) { k.RevokedAt = time.Now() })
	o.do(func() {
		o.changes = o.changes[1:]
		o.history = "his_other"
	})
	n = startNode(t, c)
	eventually(t, "the node follows", func() bool { return n.store.Cursor().History == "his_other" })
	ask(t, n, "GET", me, key, "").want(t, 401, "api_key_revoked")
}

// TestBackInTheSameHistory: the origin's last change lies before the node's, and it
// names no other history, as over a standby that was behind when it took over. Nothing
// but its heartbeats tells the node.
func TestBackInTheSameHistory(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.history = "his_1"
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	ask(t, n, "GET", me, key, "").want(t, 200)
	o.push(o.editKey(key, false, func(*store.Key) {}), o.editKey(key, false, func(*store.Key) {}))
	eventually(t, "the changes are known", func() bool { return n.store.Cursor().Seq == 3 })

	// Two changes were lost, and now there is another.
	o.do(func() { o.changes = o.changes[:1] })
	o.editKey(key, true, func(k *store.Key) { k.RevokedAt = time.Now() })
	eventually(t, "the node asks and follows", func() bool {
		o.push() // a heartbeat
		return n.store.Cursor().Seq == 2
	})
	ask(t, n, "GET", me, key, "").want(t, 401, "api_key_revoked")
}
