package console_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
)

// TestLockouts shows the lockouts of nodes, names the one that is away, and clears.
func TestLockouts(t *testing.T) {
	f := newFixture(t)
	_, operator := f.token("operator")
	b := f.login(operator)
	if _, text := b.get("lockouts"); !strings.Contains(text, "No address is locked out.") {
		t.Errorf("without nodes: %s", text)
	}
	conn, id := f.enrol("n1", "eu")
	if _, err := f.api.EnrolNode(t.Context(), "n2", "us"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Subscribe(wire.ToNode+id+"."+wire.VerbLockouts, func(q *nats.Msg) {
		var req wire.LockoutsRequest
		if err := wire.Decode(q.Data, &req); err != nil {
			t.Error(err)
		}
		reply := &wire.LockoutsReply{All: 1500, Lockouts: []wire.Lockout{{Address: "192.0.2.7", LeftMS: 60_000}}}
		if req.Clear {
			reply.Cleared = 1
		}
		body, err := wire.Encode(reply)
		if err != nil {
			t.Error(err)
		}
		_ = q.Respond(body) // the origin may have ended
	}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	_, text := b.get("lockouts?network=192.0.2.0/24")
	for _, want := range []string{"<code>192.0.2.7</code>", "n2 in us: not connected", "1499 more", `value="192.0.2.0/24"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s: %s", want, text)
		}
	}
	if _, text := b.post("lockouts", url.Values{"network": {"192.0.2.7"}}); !strings.Contains(text, "Lockouts ended: 1. Not asked: n2 in us") {
		t.Errorf("clear: %s", text)
	}
	if _, text := b.post("lockouts", url.Values{"network": {"nonsense"}}); !strings.Contains(text, "Not done") {
		t.Errorf("clear of nonsense: %s", text)
	}
	if resp, _ := b.get("lockouts?network=nonsense"); resp.StatusCode != 400 {
		t.Errorf("a network that is none: %d", resp.StatusCode)
	}
}
