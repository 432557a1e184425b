package origin

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store/ratelimit"
)

// sharesFor subscribes to what the origin tells a node of its keys.
func sharesFor(t *testing.T, conn *nats.Conn, id string) func(until func(wire.Share) bool) {
	t.Helper()
	sub, err := conn.SubscribeSync(wire.ToNode + id + "." + wire.VerbShare)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return func(until func(wire.Share) bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			m, err := sub.NextMsg(time.Until(deadline))
			if err != nil {
				t.Fatalf("no such share: %v", err)
			}
			var s wire.Share
			if err := json.Unmarshal(m.Data, &s); err != nil || s.V != wire.Version {
				t.Fatalf("%s: %v", m.Data, err)
			}
			if until(s) {
				return
			}
		}
	}
}

// spend sends a report as a node does: again where the origin had no time to look up its keys.
func spend(n *enrolled, s wire.Spend) (failure wire.Failure) {
	n.Helper()
	n.eventually("a report is answered", func() bool {
		failure = ask[wire.Head](n, wire.VerbSpend, s).Failure
		return failure != wire.Unavailable
	})
	return failure
}

func TestSpendIsAnsweredAndShared(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, _ := f.limited(f.account("live"), 1)
	one, two := f.enrol("n1"), f.enrol("n2")
	toOne, toTwo := sharesFor(t, one.conn, one.id), sharesFor(t, two.conn, two.id)
	report := func(n *enrolled, boot string, limit, spent int64) {
		t.Helper()
		r := map[string]wire.SpentKey{key: {Report: ratelimit.Report{Limit: limit, Spent: spent}, KeyHash: f.hash(key)}}
		if failure := spend(n, wire.Spend{Head: head, Boot: boot, Keys: r}); failure != "" {
			t.Fatalf("spend: %q", failure)
		}
	}
	missing := func(boot string, spent, tokens, nodes int64) func(wire.Share) bool {
		return func(s wire.Share) bool {
			k := s.Keys[key]
			back := tokens*ratelimit.Token - k.Missing // it refills meanwhile
			return s.Boot == boot && k.Spent == spent && k.Nodes == nodes && back >= 0 && back < 2*ratelimit.Token
		}
	}
	report(one, "b1", 1, 5)
	toOne(missing("b1", 5, 5, 1))
	report(one, "b1", 1, 3) // late
	toOne(missing("b1", 5, 5, 1))
	report(two, "b1", 1, 4)
	toTwo(missing("b1", 4, 9, 2))
	toOne(missing("b1", 5, 9, 2)) // without having asked
	report(one, "b2", 9_999, 2)   // another life of its counters, and a limit that is not the key's
	toOne(missing("b2", 2, 11, 3))

	for _, s := range []wire.Spend{
		{Head: head, Keys: reports("key_1", ratelimit.Report{Limit: 1, Spent: 9})},
		{Head: head, Boot: strings.Repeat("b", 65)},
		{Head: head, Boot: "b1", Keys: reports("key_1", ratelimit.Report{Limit: 1, Spent: -9})},
		{Head: head, Boot: "b1", Keys: reports("key_1", ratelimit.Report{Limit: 1, Spent: 9, From: -1})},
		{Head: head, Boot: "b1", Keys: reports("", ratelimit.Report{Limit: 1, Spent: 9})},
		{Head: head, Boot: "b1", Keys: reports(strings.Repeat("k", 65), ratelimit.Report{Limit: 1, Spent: 9})},
	} {
		if r := ask[wire.Head](one, wire.VerbSpend, s); r.Failure != wire.Invalid {
			t.Errorf("%+v gave %+v", s, r)
		}
	}
}

// reports returns a report of one key.
func reports(key string, r ratelimit.Report) map[string]wire.SpentKey {
	return map[string]wire.SpentKey{key: {Report: r}}
}

// limited makes a key with this limit a minute.
func (f *fixture) limited(account string, limit int) (id, plaintext string) {
	f.Helper()
	v := f.must(201, "POST", "/admin/v1/accounts/"+account+"/keys", object{
		"environment": "live", "scopes": []string{"read:agent"}, "rate_limit": limit,
	})
	return v["key"].(object)["id"].(string), v["plaintext"].(string)
}

// A node's word is not taken for a limit: a key counts by its own, and one that
// does not exist or is revoked has nothing left and is not kept.
func TestLimitsAreTheKeysOwn(t *testing.T) {
	t.Parallel()
	var late atomic.Int64 // of the origin's clock, a time.Duration
	pass := func(d time.Duration) { late.Add(int64(d)) }
	began := time.Now()
	f := newFixture(t, func(c *Config) { c.Now = func() time.Time { return began.Add(time.Duration(late.Load())) } })
	key, _ := f.limited(f.account("live"), 2)
	dead, _ := f.limited(f.account("live"), 2)
	f.must(200, "POST", "/admin/v1/keys/"+dead+"/revoke", nil)
	n := f.enrol("n1")
	shares, hash := sharesFor(t, n.conn, n.id), f.hash(key)
	report := func(spent int64, limit int64) (got wire.Share) {
		t.Helper()
		r := wire.SpentKey{Report: ratelimit.Report{Limit: limit, Spent: spent}, KeyHash: hash}
		if failure := spend(n, wire.Spend{Head: head, Boot: "b", Keys: map[string]wire.SpentKey{key: r, dead: r, "key_no": r}}); failure != "" {
			t.Fatalf("spend: %q", failure)
		}
		shares(func(s wire.Share) bool { got = s; return s.Keys[key].Spent == spent })
		return got
	}
	report(2, 1_000_000)
	pass(30 * time.Second) // one token comes back, and would be half a million
	got := report(3, 1_000_000)
	if left := got.Keys[key].Missing; left != 2*ratelimit.Token {
		t.Errorf("%d grains missing, want two tokens", left)
	}
	if got = report(4, 1); got.Keys[key].Missing != 3*ratelimit.Token {
		t.Errorf("%+v, want three tokens missing", got.Keys[key])
	}
	for _, id := range []string{dead, "key_no"} {
		if s := got.Keys[id]; s.Spent != 4 || s.Missing < ratelimit.Token {
			t.Errorf("%s: told %+v, want it confirmed and nothing left", id, s)
		}
	}
	if n := f.replication.MergedKeys(); n != 1 {
		t.Errorf("%d keys are kept, want 1", n)
	}

	// While the database is away, what was read before holds; what was not is
	// asked again, and keeps no other key from being counted.
	f.config.DB.Close()
	pass(10 * time.Minute)
	if got = report(5, 1_000_000); got.Keys[key].Spent != 5 {
		t.Errorf("%+v", got.Keys[key])
	}
	all := reports("key_new", ratelimit.Report{Limit: 9, Spent: 1})
	all[key] = wire.SpentKey{Report: ratelimit.Report{Limit: 2, Spent: 6}, KeyHash: hash}
	if a := ask[wire.Head](n, wire.VerbSpend, wire.Spend{Head: head, Boot: "b", Keys: all}); a.Failure != wire.Unavailable {
		t.Errorf("a key that cannot be looked up: %+v", a)
	}
	shares(func(s wire.Share) bool {
		if _, answered := s.Keys["key_new"]; answered {
			t.Error("a key that cannot be looked up was counted")
		}
		return s.Keys[key].Spent == 6
	})
}

// TestMadeUpLives: a node that reports a key in ever new lives of its counters leaves the
// other nodes a part of the key's limit.
func TestMadeUpLives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, _ := f.limited(f.account("live"), 100)
	good, evil := f.enrol("good"), f.enrol("evil")
	report := func(n *enrolled, boot string) wire.Failure {
		return spend(n, wire.Spend{Head: head, Boot: boot, Keys: map[string]wire.SpentKey{
			key: {Report: ratelimit.Report{Limit: 100, Spent: 1}, KeyHash: f.hash(key)},
		}})
	}
	refused := 0
	for i := range 100 {
		if report(evil, fmt.Sprint("boot_", i)) == wire.Invalid {
			refused++
		}
	}
	shares := sharesFor(t, good.conn, good.id)
	if failure := report(good, "boot"); failure != "" {
		t.Fatalf("the other node: %q", failure)
	}
	shares(func(s wire.Share) bool {
		if nodes := s.Keys[key].Nodes; nodes > 9 {
			t.Errorf("the other node shares the key with %d", nodes-1)
		}
		return true
	})
	if refused != 92 {
		t.Errorf("%d of 100 lives refused", refused)
	}
}
