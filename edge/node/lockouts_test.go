package node

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestOperatorsSeeAndClearLockouts: the origin asks a node over the link. The node
// answers below its own subject alone.
func TestOperatorsSeeAndClearLockouts(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	for range 20 {
		ask(t, n, "GET", me, "svc_live_wrong", "").want(t, 401)
	}
	ask(t, n, "GET", me, key, "").want(t, 403)

	request := func(inbox string, req wire.LockoutsRequest, wait time.Duration) (reply wire.LockoutsReply, err error) {
		t.Helper()
		req.V = wire.Version
		sub := must(o.conn.SubscribeSync(inbox))(t)
		body := must(json.Marshal(req))(t)
		if err := o.conn.PublishRequest(wire.ToNode+testNode+"."+wire.VerbLockouts, inbox, body); err != nil {
			t.Fatal(err)
		}
		m, err := sub.NextMsg(wait)
		if err != nil {
			return reply, err
		}
		return read[wire.LockoutsReply](t, m.Data), nil
	}
	own := func(req wire.LockoutsRequest) wire.LockoutsReply {
		t.Helper()
		return must(request(wire.Subject(testNode, wire.VerbLockouts)+"."+nats.NewInbox()[7:], req, time.Minute))(t)
	}
	if got := own(wire.LockoutsRequest{}); got.All != 1 || len(got.Lockouts) != 1 || got.Lockouts[0].Address != "127.0.0.1" || got.Lockouts[0].LeftMS <= 0 {
		t.Errorf("listed %+v", got)
	}
	if got := own(wire.LockoutsRequest{Network: netip.MustParsePrefix("192.0.2.0/24"), Clear: true}); got.All != 0 || got.Cleared != 0 {
		t.Errorf("of another network %+v", got)
	}
	ask(t, n, "GET", me, key, "").want(t, 403)
	// The request after it is answered, so this one was left alone.
	if _, err := request("elsewhere", wire.LockoutsRequest{Clear: true}, time.Millisecond); err == nil {
		t.Error("the node published outside its own subject")
	}
	if got := own(wire.LockoutsRequest{Network: netip.MustParsePrefix("127.0.0.1/32"), Clear: true}); got.Cleared != 1 {
		t.Errorf("cleared %+v", got)
	}
	ask(t, n, "GET", me, key, "").want(t, 200)
}
