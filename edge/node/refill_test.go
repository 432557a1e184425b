package node

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
)

// refills has the origin answer requests for many keys.
func (o *testOrigin) refills() {
	o.t.Helper()
	must(o.conn.Subscribe(wire.AnyNode+wire.VerbKeys, func(m *nats.Msg) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.asked[wire.VerbKeys]++
		reply := wire.KeysReply{Head: wire.Head{V: wire.Version}, Seq: int64(len(o.changes))}
		req := read[wire.KeysRequest](o.t, m.Data)
		for i, hash := range req.Hashes {
			key, known := o.keys[string(hash)]
			if o.unread[string(hash)] && (o.whole || !req.Partial) {
				reply = wire.KeysReply{Head: wire.Head{V: wire.Version, Failure: wire.Internal}}
				break
			}
			if o.unread[string(hash)] {
				reply.Keys, reply.Unread = append(reply.Keys, nil), append(reply.Unread, i)
				continue
			}
			if key.Hash = [32]byte{}; !known {
				reply.Keys = append(reply.Keys, nil)
				continue
			}
			reply.Keys = append(reply.Keys, &key)
		}
		_ = m.Respond(must(json.Marshal(&reply))(o.t)) // the test may have taken the server away
	}))(o.t)
	if err := o.conn.Flush(); err != nil {
		o.t.Fatal(err)
	}
}

// TestRefill: after a reset a node asks again for all keys that it holds, in one request,
// and knows which were revoked and which are gone, before any partner asks.
func TestRefill(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.history = "his_1"
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	kept, revoked, gone := o.addKey("key_1", nil), o.addKey("key_2", nil), o.addKey("key_3", nil)
	n := startNode(t, config(t, o))
	for _, key := range []string{kept, revoked, gone} {
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	o.refills()
	o.do(func() {
		hash := sha256.Sum256([]byte(gone))
		delete(o.keys, string(hash[:]))
		o.history = "his_2"
	})
	o.editKey(revoked, true, func(k *store.Key) { k.RevokedAt = time.Now() })
	single := o.requests(wire.VerbKey)
	o.push() // of another history
	eventually(t, "the keys are current again", func() bool {
		return len(n.store.Keys.StaleNames(10)) == 0 && n.store.Keys.Len() == 2
	})
	ask(t, n, "GET", me, kept, "").want(t, 200)
	ask(t, n, "GET", me, revoked, "").want(t, 401, "api_key_revoked")
	if more := o.requests(wire.VerbKey) - single; more != 0 {
		t.Errorf("%d keys were asked for one by one", more)
	}
	if batches := o.requests(wire.VerbKeys); batches != 1 {
		t.Errorf("the keys were asked for in %d requests", batches)
	}
	ask(t, n, "GET", me, gone, "").want(t, 401, "unknown_api_key")
}

// TestRefillWithoutAnUnreadKey: the origin cannot read one of the keys that a node asks for
// again. The others are current, the one is neither served as it was held nor taken for
// unknown, and is served again once the origin reads it.
func TestRefillWithoutAnUnreadKey(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"this origin": false, "an older one, which fails at all of them": true} {
		t.Run(name, func(t *testing.T) { refillWithoutAnUnreadKey(t, whole) })
	}
}

func refillWithoutAnUnreadKey(t *testing.T, whole bool) {
	o := newOrigin(t)
	o.history, o.whole = "his_1", whole
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	var keys []string
	for i := range 3 {
		keys = append(keys, o.addKey(fmt.Sprint("key_", i), nil))
	}
	n := startNode(t, config(t, o))
	for _, key := range keys {
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	o.refills()
	unread := sha256.Sum256([]byte(keys[1]))
	o.do(func() {
		o.unread = map[string]bool{string(unread[:]): true}
		o.history = "his_2"
	})
	o.push() // of another history
	eventually(t, "the other keys are current again", func() bool {
		stale := n.store.Keys.StaleNames(10)
		return len(stale) == 1 && stale[0] == string(unread[:])
	})
	asked := o.requests(wire.VerbKey)
	for _, key := range []string{keys[0], keys[2]} {
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	if more := o.requests(wire.VerbKey) - asked; more != 0 {
		t.Errorf("%d keys were asked for one by one", more)
	}
	for range 2 {
		if a := ask(t, n, "GET", me, keys[1], ""); a.status != 500 || a.header.Get("Retry-After") == "" {
			t.Errorf("an unread key: %d %s, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
		}
	}
	o.do(func() { o.unread = nil })
	ask(t, n, "GET", me, keys[1], "").want(t, 200)
}

// TestRefillOvertaken: a change that comes while a batch is on its way leaves the key
// stale, so that the next request asks for it.
func TestRefillOvertaken(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.history = "his_1"
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	ask(t, n, "GET", me, key, "").want(t, 200)
	asked := make(chan *nats.Msg, 1)
	must(o.conn.ChanSubscribe(wire.AnyNode+wire.VerbKeys, asked))(t)
	o.do(func() { o.history = "his_2" })
	o.push()
	var batch *nats.Msg
	select {
	case batch = <-asked:
	case <-time.After(time.Minute):
		t.Fatal("the node does not refill")
	}
	var reply wire.KeysReply
	o.do(func() {
		hash := sha256.Sum256([]byte(key))
		k := o.keys[string(hash[:])]
		reply = wire.KeysReply{Head: wire.Head{V: wire.Version}, Keys: []*store.Key{&k}, Seq: int64(len(o.changes))}
	})
	change := o.editKey(key, true, func(k *store.Key) { k.RevokedAt = time.Now() })
	o.push(change)
	eventually(t, "the change is known", func() bool { return n.store.Cursor().Seq == change.Seq })
	if err := batch.Respond(must(json.Marshal(&reply))(t)); err != nil {
		t.Fatal(err)
	}
	ask(t, n, "GET", me, key, "").want(t, 401, "api_key_revoked")
}
