package origin

import (
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
)

// answerLockouts has a node answer for one lockout, until that is cleared.
func (m *enrolled) answerLockouts(address string) {
	m.Helper()
	var cleared atomic.Bool
	if _, err := m.conn.Subscribe(wire.ToNode+m.address+"."+wire.VerbLockouts, func(q *nats.Msg) {
		var req wire.LockoutsRequest
		if err := wire.Decode(q.Data, &req); err != nil {
			m.Error(err)
		}
		reply := &wire.LockoutsReply{}
		if !cleared.Load() {
			reply.All, reply.Lockouts = 1, []wire.Lockout{{Address: address, LeftMS: 60_000}}
			if req.Clear {
				cleared.Store(true)
				reply.Cleared = 1
			}
		}
		body, err := wire.Encode(reply)
		if err != nil {
			m.Error(err)
		}
		if err := q.Respond(body); err != nil {
			m.Error(err)
		}
	}); err != nil {
		m.Fatal(err)
	}
	if err := m.conn.Flush(); err != nil {
		m.Fatal(err)
	}
}

func adminLockouts(f *fixture) {
	const path = "/admin/v1/lockouts"
	f.enrol("lock-1").answerLockouts("192.0.2.7")
	f.enrol("lock-2").answerLockouts("2001:db8::/64")
	f.enrol("lock-old") // of a version that does not know the question
	away := f.enrol("lock-away")
	away.conn.Close()
	list := func(query string) (items []any, text string) {
		v := f.must(200, "GET", path+query, nil)
		raw, _ := json.Marshal(v)
		return v["items"].([]any), string(raw)
	}
	items, text := list("?network=192.0.2.0/24")
	if len(items) != 2 || items[0].(object)["region"] != "eu-west" { // the test's nodes do not look at the network
		f.Errorf("listed %s", text)
	}
	for _, want := range []string{`"address":"192.0.2.7"`, `"address":"2001:db8::/64"`, `"node":"lock-1"`, `"node":"lock-old","node_id"`, `"node":"lock-away","node_id"`, "not connected"} {
		if !strings.Contains(text, want) {
			f.Errorf("the list lacks %s: %s", want, text)
		}
	}
	f.mustRefuse(400, "network_invalid", "GET", path+"?network=here", nil)
	for reason, in := range map[string]object{
		"network_required": {}, "network_invalid": {"network": "192.0.2"}, "network_too_long": {"network": strings.Repeat("1", 65)},
		"all_invalid": {"network": "192.0.2.7", "all": true},
	} {
		f.mustRefuse(400, reason, "POST", path+"/clear", in)
	}
	if v := f.must(200, "POST", path+"/clear", object{"network": "192.0.2.7"}); v["cleared"] != 2.0 || len(v["unreached"].([]any)) < 2 {
		f.Errorf("cleared %v", v)
	}
	if v := f.must(200, "POST", path+"/clear", object{"all": true}); v["cleared"] != 0.0 {
		f.Errorf("cleared twice: %v", v)
	}
	if items, text := list(""); len(items) != 0 {
		f.Errorf("after they were cleared %s", text)
	}
	for _, target := range []string{"192.0.2.7", "every%20address"} {
		entries := f.must(200, "GET", "/admin/v1/audit?target="+target, nil)["items"].([]any)
		if len(entries) != 1 || entries[0].(object)["action"] != "lockout.clear" {
			f.Errorf("the audit log has %v", entries)
		}
	}
}
