package origin

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
)

func TestKeyVerb(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	id, plaintext := f.key(account, "live")
	node := f.enrol("n1")

	hash := sha256.Sum256([]byte(plaintext))
	reply := ask[wire.KeyReply](node, wire.VerbKey, wire.KeyRequest{Head: head, Hash: hash[:]})
	if reply.V != wire.Version || reply.Failure != "" || reply.Key == nil || reply.Key.ID != id || reply.Key.AccountID != account {
		t.Fatalf("got %+v", reply)
	}
	f.must(200, "POST", "/admin/v1/keys/"+id+"/revoke", nil)
	after := ask[wire.KeyReply](node, wire.VerbKey, wire.KeyRequest{Head: head, Hash: hash[:]})
	if after.Key == nil || after.Key.RevokedAt.IsZero() || after.Seq <= reply.Seq {
		t.Fatalf("after revocation got %+v, before it was at change %d", after, reply.Seq)
	}
	other := sha256.Sum256([]byte("no such key"))
	if reply := ask[wire.KeyReply](node, wire.VerbKey, wire.KeyRequest{Head: head, Hash: other[:]}); reply.Failure != wire.NotFound || reply.Seq != after.Seq {
		t.Errorf("an unknown key gave %+v", reply)
	}
	for _, bad := range [][]byte{nil, hash[:31], append(hash[:], 0)} {
		if reply := ask[wire.KeyReply](node, wire.VerbKey, wire.KeyRequest{Head: head, Hash: bad}); reply.Failure != wire.Invalid {
			t.Errorf("a hash of %d bytes gave %+v", len(bad), reply)
		}
	}
}

// TestBareKeyReply: a node that says so gets its key without the hash that it knows, and
// others get it with the hash, as before.
func TestBareKeyReply(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, plaintext := f.key(f.account("live"), "live")
	node, hash := f.enrol("n1"), sha256.Sum256([]byte(plaintext))
	for bare, want := range map[bool][32]byte{false: hash, true: {}} {
		reply := ask[wire.KeyReply](node, wire.VerbKey, wire.KeyRequest{Head: head, Hash: hash[:], Bare: bare})
		if reply.Key == nil || reply.Key.Hash != want {
			t.Errorf("bare %t: got %+v", bare, reply.Key)
		}
	}
}

// hashOf returns what a node asks for a key by.
func hashOf(plaintext string) []byte {
	hash := sha256.Sum256([]byte(plaintext))
	return hash[:]
}

// TestKeysVerb asks for many keys at once: they come in order, without what is for
// operators and without their hashes.
func TestKeysVerb(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	one, plain1 := f.key(account, "live")
	two, plain2 := f.key(account, "live")
	f.must(200, "POST", "/admin/v1/keys/"+two+"/revoke", nil)
	node := f.enrol("n1")
	reply := ask[wire.KeysReply](node, wire.VerbKeys, wire.KeysRequest{Head: head, Hashes: [][]byte{hashOf(plain2), hashOf("none"), hashOf(plain1)}})
	if reply.Failure != "" || len(reply.Keys) != 3 || reply.Keys[1] != nil || reply.Keys[0] == nil || reply.Keys[2] == nil {
		t.Fatalf("got %+v", reply)
	}
	if reply.Keys[0].ID != two || reply.Keys[0].RevokedAt.IsZero() || reply.Keys[2].ID != one || !reply.Keys[2].RevokedAt.IsZero() {
		t.Errorf("got %+v and %+v", reply.Keys[0], reply.Keys[2])
	}
	single := ask[wire.KeyReply](node, wire.VerbKey, wire.KeyRequest{Head: head, Hash: hashOf(plain1), Bare: true})
	if got, want := fmt.Sprint(*reply.Keys[2]), fmt.Sprint(*single.Key); got != want || reply.Seq != single.Seq {
		t.Errorf("%s at %d; one by one %s at %d", got, reply.Seq, want, single.Seq)
	}
	if reply := ask[wire.KeysReply](node, wire.VerbKeys, wire.KeysRequest{Head: head}); reply.Failure != "" || reply.Seq != single.Seq || len(reply.Keys) != 0 {
		t.Errorf("no keys gave %+v", reply)
	}
	for what, hashes := range map[string][][]byte{"a short hash": {hashOf("a")[:31]}, "too many": slices.Repeat([][]byte{hashOf("a")}, wire.MaxRefill+1)} {
		if reply := ask[wire.KeysReply](node, wire.VerbKeys, wire.KeysRequest{Head: head, Hashes: hashes}); reply.Failure != wire.Invalid {
			t.Errorf("%s gave %+v", what, reply)
		}
	}
}

// TestKeyVerbOfMany asks for keys that are known, revoked, made up and named twice in one
// question. What is not a question for keys, and what is too large, is refused whole.
func TestKeyVerbOfMany(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	one, plain1 := f.key(account, "live")
	two, plain2 := f.key(account, "live")
	f.must(200, "POST", "/admin/v1/keys/"+two+"/revoke", nil)
	node := f.enrol("n1")
	asked := func(first []byte, more ...[]byte) wire.KeyReply {
		return ask[wire.KeyReply](node, wire.VerbKey, wire.KeyRequest{Head: head, Hash: first, Bare: true, More: more})
	}
	reply := asked(hashOf("none"), hashOf(plain2), hashOf(plain1), hashOf("none"), hashOf(plain1))
	single := asked(hashOf(plain1))
	if reply.Failure != "" || reply.Key != nil || reply.Seq != single.Seq || len(reply.Keys) != 5 {
		t.Fatalf("got %+v", reply)
	}
	if reply.Keys[0] != nil || reply.Keys[3] != nil || reply.Keys[1] == nil || reply.Keys[2] == nil || reply.Keys[4] == nil {
		t.Fatalf("got %+v", reply.Keys)
	}
	if revoked := reply.Keys[1]; revoked.ID != two || revoked.RevokedAt.IsZero() || revoked.Hash != [32]byte{} {
		t.Errorf("the revoked key is %+v", revoked)
	}
	for _, key := range []*store.Key{reply.Keys[2], reply.Keys[4]} {
		if got, want := fmt.Sprint(*key), fmt.Sprint(*single.Key); key.ID != one || got != want {
			t.Errorf("got %s, alone %s", got, want)
		}
	}
	full := slices.Repeat([][]byte{hashOf("none")}, wire.MaxMoreKeys)
	if reply := asked(hashOf(plain1), full...); reply.Failure != "" || len(reply.Keys) != 1+wire.MaxMoreKeys || reply.Keys[0] == nil {
		t.Errorf("the largest question gave %q and %d keys", reply.Failure, len(reply.Keys))
	}
	for what, reply := range map[string]wire.KeyReply{
		"too many":           asked(hashOf("none"), append(full, hashOf("none"))...),
		"a short hash":       asked(hashOf("none"), hashOf("none")[:31]),
		"no first hash":      asked(nil, hashOf("none")),
		"an empty hash more": asked(hashOf("none"), []byte{}),
	} {
		if reply.Failure != wire.Invalid || len(reply.Keys) != 0 {
			t.Errorf("%s gave %+v", what, reply)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.enrol("n1")
	for v, want := range map[int]wire.Failure{
		-1: wire.Invalid, 0: wire.Invalid, wire.Version - 1: "", wire.Version: "", wire.Version + 1: "", wire.Version + 2: wire.Invalid,
	} {
		reply := ask[wire.ChangesReply](node, wire.VerbChanges, object{"v": v, "since": 0, "a_field_of_tomorrow": true})
		if reply.Failure != want || reply.V != wire.Version {
			t.Errorf("version %d gave %+v, want failure %q", v, reply, want)
		}
	}
	for _, body := range []any{"text", []int{1}, object{"v": "one"}, object{"v": 1, "since": "x"}} {
		if reply := ask[wire.ChangesReply](node, wire.VerbChanges, body); reply.Failure != wire.Invalid {
			t.Errorf("%v gave %+v", body, reply)
		}
	}
}

func TestViewVerb(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("setup")
	keyID, _ := f.key(account, "test")
	node := f.enrol("n1")
	view := func(kind store.ChangeKind, change func(*wire.ViewRequest)) wire.ViewReply {
		req := wire.ViewRequest{Head: head, AccountID: account, KeyHash: f.hash(keyID), Kind: kind}
		if change != nil {
			change(&req)
		}
		return ask[wire.ViewReply](node, wire.VerbView, req)
	}
	if v := view(store.ChangeInsights, nil); v.Failure != "" || v.History || len(v.Insights) != 0 {
		t.Errorf("no insights: %+v", v)
	}
	f.must(201, "POST", "/admin/v1/accounts/"+account+"/coaching-runs", object{"insights": []object{
		{"headline": "one", "detail": "d", "created_at": "2026-01-01T00:00:00Z"},
		{"headline": "two", "detail": "d", "created_at": "2026-01-02T00:00:00Z"},
	}})
	for i := range 3 {
		f.must(201, "POST", "/admin/v1/accounts/"+account+"/sentinel-firings", object{
			"sentinel_name": fmt.Sprint("s", i), "trigger_data": object{"n": i}, "action_taken": "told", "triggered_at": fmt.Sprintf("2026-01-0%dT00:00:00Z", i+1),
		})
	}
	if v := view(store.ChangeProfile, nil); v.Account == nil || v.Account.ID != account || v.Account.Agent.FullName != "Ana Silva" || v.Seq == 0 {
		t.Errorf("profile: %+v", v)
	}
	v := view(store.ChangeInsights, nil)
	if !v.History || len(v.Insights) != 2 || v.Insights[0].Headline != "two" {
		t.Errorf("insights: %+v", v)
	}
	v = view(store.ChangeInsights, func(r *wire.ViewRequest) { r.Since = v.Insights[1].CreatedAt })
	if len(v.Insights) != 1 || v.Insights[0].Headline != "two" {
		t.Errorf("insights since: %+v", v)
	}
	v = view(store.ChangeFirings, func(r *wire.ViewRequest) { r.Limit = 2 })
	if len(v.Firings) != 2 || !v.More || v.Firings[0].Name != "s2" || string(v.Firings[0].Data) != `{"n":2}` {
		t.Errorf("firings: %+v", v)
	}
	v = view(store.ChangeFirings, func(r *wire.ViewRequest) { r.Before, r.Limit = v.Firings[1].TriggeredAt, 100_000 })
	if len(v.Firings) != 1 || v.More || v.Firings[0].Name != "s0" {
		t.Errorf("older firings: %+v", v)
	}
	if v := view(store.ChangeKey, nil); v.Failure != wire.Invalid {
		t.Errorf("a view of a key: %+v", v)
	}
	if v := view(store.ChangeProfile, func(r *wire.ViewRequest) { r.AccountID = "acc_none" }); v.Failure != wire.Refused {
		t.Errorf("no account: %+v", v)
	}
}

// The largest view that the admin API lets arise must fit one message.
func TestLargestView(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("setup")
	keyID, _ := f.key(account, "test")
	node := f.enrol("n1")
	data := `{"a":"` + strings.Repeat(`<`, 16<<10-8) + `"}`
	body := `{"sentinel_name":"` + strings.Repeat("é", 100) + `","action_taken":"` + strings.Repeat("😀", 500) + `","trigger_data":` + data + `}`
	for range 100 {
		f.must(201, "POST", "/admin/v1/accounts/"+account+"/sentinel-firings", body)
	}
	v := ask[wire.ViewReply](node, wire.VerbView, wire.ViewRequest{Head: head, AccountID: account, KeyHash: f.hash(keyID), Kind: store.ChangeFirings})
	if len(v.Firings) != 100 || string(v.Firings[0].Data) != data {
		t.Fatalf("got %d firings, failure %q", len(v.Firings), v.Failure)
	}
}

// follow returns the changes that are pushed to a node from now on.
func (m *enrolled) follow() <-chan wire.Changed {
	m.Helper()
	pushed := make(chan wire.Changed, 100)
	if _, err := m.conn.Subscribe(wire.Changes, func(msg *nats.Msg) {
		var c wire.Changed
		if err := wire.Decode(msg.Data, &c); err != nil {
			m.Error(err)
		}
		c.Short = bytes.Contains(msg.Data, []byte(`"refs"`))
		pushed <- c
	}); err != nil {
		m.Fatal(err)
	}
	if err := m.conn.Flush(); err != nil {
		m.Fatal(err)
	}
	return pushed
}

func TestChangesArePushed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	node := f.enrol("n1")
	pushed := node.follow()
	start := ask[wire.ChangesReply](node, wire.VerbChanges, wire.ChangesRequest{Head: head, Since: 0}).Latest

	id, _ := f.key(account, "live")
	f.must(200, "POST", "/admin/v1/keys/"+id+"/revoke", nil)
	var got []store.Change
	for !slices.ContainsFunc(got, func(c store.Change) bool { return c.Kind == store.ChangeKey && c.Ref == id && c.Gone }) {
		c := next(f, pushed, "change of the key")
		if len(c.Changes) > 0 && !c.Short {
			t.Error("no short form, which every node reads")
		}
		got = append(got, c.Changes...)
	}
	older, _ := json.Marshal(wire.Status{Head: head, Region: "eu-west"})
	if err := node.conn.Publish(wire.Subject(node.id, wire.VerbStatus), older); err != nil {
		t.Fatal(err)
	}
	f.eventually("the older node is connected", func() bool {
		return f.must(200, "GET", "/admin/v1/nodes", nil)["items"].([]any)[0].(object)["connected"] == true
	})
	f.must(200, "PATCH", "/admin/v1/accounts/"+account, object{"name": "New name"})
	for !slices.ContainsFunc(got, func(c store.Change) bool { return c.Kind == store.ChangeProfile && c.Ref == account }) {
		c := next(f, pushed, "change of the profile")
		if len(c.Changes) > 0 && c.Short {
			t.Error("a short form, which the older node does not read")
		}
		got = append(got, c.Changes...)
	}
	// With nothing new there is still a beat, which names the last change.
	for {
		if c := next(f, pushed, "beat"); len(c.Changes) == 0 {
			if c.V != wire.Version || c.Latest != got[len(got)-1].Seq {
				t.Errorf("the beat is %+v, the last change %+v", c, got[len(got)-1])
			}
			break
		}
	}
	asked := ask[wire.ChangesReply](node, wire.VerbChanges, wire.ChangesRequest{Head: head, Since: start})
	if !slices.Equal(asked.Changes, got) || asked.Reset {
		t.Errorf("pushed %+v, asked for %+v", got, asked)
	}
	if ahead := ask[wire.ChangesReply](node, wire.VerbChanges, wire.ChangesRequest{Head: head, Since: asked.Latest + 1000}); !ahead.Reset {
		t.Errorf("a cursor from the future gave %+v", ahead)
	}
}

// Deliveries that were queued, and that no sender took, wake other processes.
func TestQueuedDeliveriesWakeOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	woken := make(chan *nats.Msg, 100)
	if _, err := f.broker.Conn().ChanSubscribe(wire.WakeUp, woken); err != nil {
		t.Fatal(err)
	}
	account := f.account("live")
	f.subscribe("whs_1", account, "key_1")
	f.must(201, "POST", accounts+"/"+account+"/sentinel-firings", object{"sentinel_name": "s", "trigger_data": object{}, "action_taken": "a"})
	next(f, woken, "wake-up")
}

func TestLeadsVerb(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	keyID, _ := f.key(account, "live")
	node := f.enrol("n1")
	lead := func(change func(*store.Lead)) store.Lead {
		l := store.Lead{
			ID: store.NewID("lead", time.Now()), AccountID: account, KeyID: keyID, Environment: store.Live,
			FirstName: "Lena", Email: "lena.private@example.com", ConsentStatus: "none", CreatedAt: time.Now().UTC(),
		}
		if change != nil {
			change(&l)
		}
		return l
	}
	good, again := lead(nil), lead(nil)
	test := lead(func(l *store.Lead) { l.Environment = store.Test })
	forced := lead(func(l *store.Lead) { l.OutreachAllowed = true })
	orphan := lead(func(l *store.Lead) { l.AccountID = "acc_none" })
	reply := ask[wire.LeadsReply](node, wire.VerbLeads, f.leadsRequest(good, again, test, forced, orphan))
	refused := []string{test.ID, forced.ID, orphan.ID}
	slices.Sort(refused)
	if len(reply.Committed) != 5 || !slices.Equal(reply.Committed[:2], []string{good.ID, again.ID}) || !slices.Equal(slices.Sorted(slices.Values(reply.Committed[2:])), refused) {
		t.Errorf("committed %v", reply.Committed)
	}
	if len(reply.Rejected) != 0 {
		t.Errorf("rejected %v", reply.Rejected)
	}
	reply = ask[wire.LeadsReply](node, wire.VerbLeads, f.leadsRequest(again))
	if !slices.Equal(reply.Committed, []string{again.ID}) {
		t.Errorf("handed over again: %+v", reply)
	}
	list := f.must(200, "GET", "/admin/v1/accounts/"+account+"/leads", nil)
	if items := list["items"].([]any); len(items) != 2 {
		t.Errorf("kept %v", items)
	}
	if reply := ask[wire.LeadsReply](node, wire.VerbLeads, f.leadsRequest(make([]store.Lead, 1001)...)); reply.Failure != wire.Invalid {
		t.Errorf("too many: %+v", reply)
	}
	if strings.Contains(f.logs.String(), "lena.private") {
		t.Error("a lead is in the log")
	}

	raw := ask[wire.LeadsReply](node, wire.VerbLeads, wire.LeadsRequest{
		Head: head, Leads: []json.RawMessage{[]byte(`{"id":"lead_odd","rate":1,"phone":7}`)},
		Raw: []wire.RawLead{{ID: "lead_garbage", Body: []byte{0, 0xff}}, {ID: "lead_other", Body: f.leadsRequest(lead(nil)).Leads[0]}, {ID: good.ID, Body: f.leadsRequest(good).Leads[0]}},
	})
	if got := slices.Sorted(slices.Values(raw.Committed)); !slices.Equal(got, slices.Sorted(slices.Values([]string{"lead_odd", "lead_garbage", "lead_other", good.ID}))) {
		t.Errorf("committed %v", got)
	}
	waiting, _, err := f.config.DB.QuarantinedLeads(t.Context(), store.Span{}, store.Page{})
	if err != nil || len(waiting) != 6 {
		t.Fatalf("%d wait, %v", len(waiting), err)
	}
	for _, q := range waiting {
		if q.NodeID != node.id || q.Reason == "" {
			t.Errorf("%+v", q)
		}
	}
	_, _, metrics := f.send("GET", "/metrics", nil, "")
	for _, want := range []string{"edge_origin_leads_quarantined 6\n", `edge_origin_leads_refused_total{outcome="quarantined"} 6` + "\n"} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("no %s in %s", want, metrics)
		}
	}
}

// leadsRequest hands leads over, each with the hash of its key.
func (f *fixture) leadsRequest(leads ...store.Lead) wire.LeadsRequest {
	req := wire.LeadsRequest{Head: head}
	for _, l := range leads {
		body, _ := json.Marshal(store.AcceptedLead{Lead: l, KeyHash: f.hash(l.KeyID)}) // of a struct without odd fields
		req.Leads = append(req.Leads, body)
	}
	return req
}

// TestLeadsLeaveChanges: leads that wait for the database, as many as nodes have after an
// outage, keep no node from the changes that it missed.
func TestLeadsLeaveChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	late := f.enrol("late")
	raw := f.database()
	const nodes, batches, rounds = 3, 32, 5
	var others []*enrolled
	var answers []*nats.Subscription
	for i := range nodes {
		n := f.enrol(fmt.Sprint("n", i))
		sub, err := n.conn.SubscribeSync(wire.Inbox(n.address) + ".lead")
		if err != nil {
			t.Fatal(err)
		}
		others, answers = append(others, n), append(answers, sub)
	}
	answered := func() (all int) {
		for i, sub := range answers {
			if err := others[i].conn.Flush(); err != nil {
				t.Fatal(err)
			}
			n, _, err := sub.Pending()
			if err != nil {
				t.Fatal(err)
			}
			all += n
		}
		return all
	}
	for round := range rounds {
		if _, err := raw.Exec("BEGIN IMMEDIATE"); err != nil { // no lead can be written
			t.Fatal(err)
		}
		for i, n := range others {
			n.handOver(batches, store.Lead{ID: fmt.Sprint("lead_", i), AccountID: "acc_none", Environment: store.Live})
		}
		failure := ask[wire.ChangesReply](late, wire.VerbChanges, wire.ChangesRequest{Head: head}).Failure
		early := answered() - round*nodes*batches
		if _, err := raw.Exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		if failure == "" && early == 0 {
			return
		}
		// On a busy machine the time of the leads may be over before the node has its changes.
		t.Logf("the changes were answered %q, and %d leads before them", failure, early)
		f.eventually("all leads are answered", func() bool { return answered() == (round+1)*nodes*batches })
	}
	t.Errorf("in none of %d rounds were the changes answered before the leads", rounds)
}

// handOver sends a lead a number of times, and has the answers go to one inbox.
func (m *enrolled) handOver(times int, lead store.Lead) {
	m.Helper()
	body, err := json.Marshal(m.leadsRequest(lead))
	for range times {
		err = errors.Join(err, m.conn.PublishRequest(wire.Subject(m.address, wire.VerbLeads), wire.Inbox(m.address)+".lead", body))
	}
	if err = errors.Join(err, m.conn.Flush()); err != nil {
		m.Fatal(err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	node := f.enrol("n1")
	shown := func() object {
		return f.must(200, "GET", "/admin/v1/nodes", nil)["items"].([]any)[0].(object)
	}
	if n := shown(); n["connected"] != false || n["status"] != nil || n["region"] != "eu-west" {
		t.Errorf("before: %v", n)
	}
	body, _ := json.Marshal(wire.Status{Head: head, Region: "eu-west", Build: "r1", Seq: 7, Outbox: 3, HotKeys: 2, Sandboxes: 4})
	if err := node.conn.Publish(wire.Subject(node.id, wire.VerbStatus), body); err != nil {
		t.Fatal(err)
	}
	f.eventually("the node is connected", func() bool { return shown()["connected"] == true })
	if s := shown()["status"].(object); s["outbox"] != 3.0 || s["build"] != "r1" {
		t.Errorf("status: %v", s)
	}
	f.eventually("the sign of life is written down", func() bool {
		n, err := f.config.DB.Node(t.Context(), node.id)
		return err == nil && !n.LastSeenAt.IsZero() && n.Version == "r1"
	})

}
