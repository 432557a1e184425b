package origin

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/origin/natsauth"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/grant"
	"partneredge/store/ratelimit"
)

// stolen is a node whose credentials a thief has, and what it wants of: the keys of an
// account, which this node never saw.
type stolen struct {
	*enrolled
	victim             string // account
	live, test, ended  string // ids of the victim's keys; the last is revoked
	liveHash, testHash []byte
}

func newStolen(t *testing.T, f *fixture) *stolen {
	t.Helper()
	s := &stolen{enrolled: f.enrol("thief"), victim: f.account("live")}
	s.live, _ = f.key(s.victim, "live")
	s.test, _ = f.key(s.victim, "test")
	s.ended, _ = f.key(s.victim, "live")
	s.liveHash, s.testHash = f.hash(s.live), f.hash(s.test)
	f.must(200, "POST", "/admin/v1/keys/"+s.ended+"/revoke", nil)
	return s
}

// lead returns a lead of the victim's that key is said to have pushed.
func (s *stolen) lead(key string) store.Lead {
	return store.Lead{
		ID: store.NewID("lead", time.Now()), AccountID: s.victim, KeyID: key, Environment: store.Live,
		FirstName: "Forged", Email: "forged@example.com", ConsentStatus: "none", CreatedAt: time.Now().UTC(),
	}
}

func (s *stolen) subscription(key string, env store.Environment) store.Subscription {
	return store.Subscription{
		ID: store.NewID("whs", time.Now()), AccountID: s.victim, KeyID: key, Environment: env,
		TargetURL: "https://thief.example.net/hook", Events: []string{store.EventInsightCreated},
		Secret: strings.Repeat("ab", 32), CreatedAt: time.Now().UTC(),
	}
}

// leads hands over leads as they are, and returns the ids of those that the victim has
// then.
func (s *stolen) leads(leads ...store.AcceptedLead) (kept []string) {
	s.Helper()
	return s.leadsBy(head, leads...)
}

// leadsBy is leads in a version of messages.
func (s *stolen) leadsBy(h wire.Head, leads ...store.AcceptedLead) (kept []string) {
	s.Helper()
	req := wire.LeadsRequest{Head: h}
	for _, l := range leads {
		body, err := json.Marshal(l)
		if err != nil {
			s.Fatal(err)
		}
		req.Leads = append(req.Leads, body)
	}
	if reply := ask[wire.LeadsReply](s.enrolled, wire.VerbLeads, req); len(reply.Committed) != len(leads) {
		s.Errorf("a node that is honest would hand them over for good: %+v", reply)
	}
	for _, item := range s.must(200, "GET", accounts+"/"+s.victim+"/leads", nil)["items"].([]any) {
		kept = append(kept, item.(object)["id"].(string))
	}
	return kept
}

// TestStolenNodeAsks: a node that never saw a key of an account reads nothing of it,
// and changes nothing of it, whatever ids it knows.
func TestStolenNodeAsks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newStolen(t, f)
	own := f.account("live")
	ownKey, _ := f.key(own, "live")
	narrow, _ := f.limited(own, 100) // may read the agent alone
	f.subscribe("whs_victim", s.victim, s.live)

	view := func(account string, hash []byte, kind store.ChangeKind) wire.Failure {
		r := ask[wire.ViewReply](s.enrolled, wire.VerbView, wire.ViewRequest{Head: head, AccountID: account, KeyHash: hash, Kind: kind})
		if r.Failure != "" && (r.Account != nil || len(r.Insights)+len(r.Firings) > 0) {
			t.Errorf("refused, and yet told %+v", r)
		}
		return r.Failure
	}
	subscribe := func(sub store.Subscription, hash []byte) wire.Failure {
		return ask[wire.SubscribeReply](s.enrolled, wire.VerbSubscribe, wire.SubscribeRequest{Head: head, Subscription: sub, KeyHash: hash}).Failure
	}
	revoke := func(hash []byte, untold bool) wire.Failure {
		return ask[wire.RevokeReply](s.enrolled, wire.VerbRevoke, wire.RevokeRequest{Head: head, AccountID: s.victim, ID: "whs_victim", KeyHash: hash, Untold: untold}).Failure
	}
	guess := make([]byte, 32)
	asks := map[string]func() wire.Failure{
		"another account's subscription revoked":               func() wire.Failure { return revoke(f.hash(ownKey), false) },
		"revoked without a key":                                func() wire.Failure { return revoke(nil, false) },
		"revoked as if nobody had been told of it":             func() wire.Failure { return revoke(f.hash(ownKey), true) },
		"the same without a key":                               func() wire.Failure { return revoke(nil, true) },
		"subscribed with a revoked key's id":                   func() wire.Failure { return subscribe(s.subscription(s.ended, store.Live), nil) },
		"subscribed with a revoked key":                        func() wire.Failure { return subscribe(s.subscription(s.ended, store.Live), f.hash(s.ended)) },
		"subscribed with a key's id":                           func() wire.Failure { return subscribe(s.subscription(s.live, store.Live), nil) },
		"subscribed with the hash of another account's":        func() wire.Failure { return subscribe(s.subscription(s.live, store.Live), f.hash(ownKey)) },
		"subscribed in the name of another account":            func() wire.Failure { return subscribe(s.subscription(ownKey, store.Live), f.hash(ownKey)) },
		"subscribed live with a test key":                      func() wire.Failure { return subscribe(s.subscription(s.test, store.Live), s.testHash) },
		"subscribed with a test key's hash in a live key's id": func() wire.Failure { return subscribe(s.subscription(s.live, store.Live), s.testHash) },
	}
	for _, kind := range []store.ChangeKind{store.ChangeProfile, store.ChangeInsights, store.ChangeFirings} {
		for name, hash := range map[string][]byte{"no hash": nil, "a guess": guess, "its own key": f.hash(ownKey), "a revoked key": f.hash(s.ended)} {
			asks[fmt.Sprintf("%s with %s", kind, name)] = func() wire.Failure { return view(s.victim, hash, kind) }
		}
	}
	asks["insights with a key of another scope"] = func() wire.Failure { return view(own, f.hash(narrow), store.ChangeInsights) }
	asks["firings with a key of another scope"] = func() wire.Failure { return view(own, f.hash(narrow), store.ChangeFirings) }
	for name, try := range asks {
		if got := try(); got != wire.Refused {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := view(s.victim, guess[:31], store.ChangeProfile); got != wire.Invalid {
		t.Errorf("a hash that is none: %q", got)
	}
	items := f.must(200, "GET", accounts+"/"+s.victim+"/webhooks", nil)["items"].([]any)
	if len(items) != 1 || items[0].(object)["state"] != "active" {
		t.Errorf("the victim's webhooks are %v", items)
	}
	refusals(f, s.id, string(grant.NoHash), 3+2+2) // views, subscriptions, revocations
	refusals(f, s.id, string(grant.UnknownKey), 3)
	// What its partners' keys grant, it gets: the victim's, once it was shown the key.
	for _, c := range []struct {
		account string
		hash    []byte
	}{{own, f.hash(ownKey)}, {s.victim, s.liveHash}, {s.victim, s.testHash}} {
		if got := view(c.account, c.hash, store.ChangeInsights); got != "" {
			t.Errorf("with a key of the account: %q", got)
		}
	}
	if got := subscribe(s.subscription(s.test, store.Test), s.testHash); got != "" {
		t.Errorf("subscribed with a key: %q", got)
	}
	if got := revoke(s.liveHash, false); got != "" {
		t.Errorf("revoked with a key: %q", got)
	}
}

// refusals requires that the origin counted a node's refusals for a reason.
func refusals(f *fixture, node, reason string, want int) {
	f.Helper()
	_, _, text := f.send("GET", "/metrics", nil, "")
	line := fmt.Sprintf("edge_origin_node_refusals_total{node=%q,reason=%q} ", node, reason)
	_, after, found := strings.Cut(string(text), line)
	got := 0
	if found {
		_, _ = fmt.Sscan(after, &got)
	}
	if got != want {
		f.Errorf("%s%d, want %d", line, got, want)
	}
}

// TestStolenNodeHandsOver: leads that no key grants wait in the quarantine, so an
// honest node loses none, and are no leads of the account.
func TestStolenNodeHandsOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newStolen(t, f)
	own := f.account("live")
	ownKey, _ := f.key(own, "live")
	with := func(l store.Lead, hash []byte) store.AcceptedLead { return store.AcceptedLead{Lead: l, KeyHash: hash} }
	early, late := s.lead(s.live), s.lead(s.live)
	early.CreatedAt, late.CreatedAt = time.Now().Add(-1000*time.Hour).UTC(), time.Now().Add(48*time.Hour).UTC()
	after := s.lead(s.ended)
	after.CreatedAt = time.Now().Add(2 * grant.Leeway).UTC()
	forged := []store.AcceptedLead{
		with(s.lead(s.live), nil),
		with(s.lead(s.live), f.hash(ownKey)),
		with(s.lead(ownKey), f.hash(ownKey)),
		with(s.lead("key_that_does_not_exist"), f.hash(ownKey)),
		with(s.lead(s.live), s.testHash),
		with(s.lead(s.test), s.testHash),
		with(early, s.liveHash),
		with(late, s.liveHash),
		with(after, f.hash(s.ended)),
	}
	if kept := s.leads(forged...); len(kept) != 0 {
		t.Errorf("the victim has %v", kept)
	}
	waiting, _, err := f.config.DB.QuarantinedLeads(t.Context(), store.Span{}, store.Page{Limit: 100})
	if err != nil || len(waiting) != len(forged) {
		t.Fatalf("%d wait, %v, want %d", len(waiting), err, len(forged))
	}
	for reason, times := range map[grant.Refusal]int{
		grant.NoHash: 1, grant.OtherKey: 2, grant.OtherAccount: 1, grant.UnknownKey: 1, grant.OtherEnvironment: 1, grant.WrongTime: 2, grant.KeyEnded: 1,
	} {
		refusals(f, s.id, string(reason), times)
	}

	// A lead from before its key ended is taken, and one that is sent once more
	// changes nothing; the same id with other content waits for a person.
	before := s.lead(s.ended)
	before.CreatedAt = time.Now().Add(-time.Hour).UTC()
	if kept := s.leads(with(before, f.hash(s.ended)), with(before, f.hash(s.ended))); len(kept) != 1 || kept[0] != before.ID {
		t.Errorf("the victim has %v, want %s", kept, before.ID)
	}
	replayed := before
	replayed.Email = "thief@example.com"
	s.leads(with(replayed, s.liveHash))
	items := f.must(200, "GET", accounts+"/"+s.victim+"/leads", nil)["items"].([]any)
	if len(items) != 1 || items[0].(object)["email"] != "forged@example.com" {
		t.Errorf("replayed: %v", items)
	}
	if n, err := f.config.DB.CountQuarantined(t.Context()); err != nil || n != len(forged)+1 {
		t.Errorf("%d wait, %v", n, err)
	}
}

// TestStolenNodeSpends: reports of keys that a node never saw change nobody's rate
// limit, and tell it nothing of them.
func TestStolenNodeSpends(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newStolen(t, f)
	honest := f.enrol("honest")
	report := func(n *enrolled, hash []byte, spent int64) wire.Failure {
		return spend(n, wire.Spend{Head: head, Boot: "b", Keys: map[string]wire.SpentKey{
			s.live: {Report: ratelimit.Report{Limit: 100, Spent: spent}, KeyHash: hash},
		}})
	}
	toHonest, toThief := sharesFor(t, honest.conn, honest.id), sharesFor(t, s.conn, s.id)
	if got := report(honest, s.liveHash, 1); got != "" {
		t.Fatal(got)
	}
	toHonest(func(wire.Share) bool { return true })
	if got := report(s.enrolled, s.testHash, 1_000_000); got != wire.Refused {
		t.Errorf("with another key's hash: %q", got)
	}
	if got := report(s.enrolled, nil, 1_000_000); got != "" {
		t.Errorf("without a hash: %q", got)
	}
	toThief(func(got wire.Share) bool { // what it said itself
		k, told := got.Keys[s.live]
		if told && (k.Nodes != 1 || k.Spent != 1_000_000) {
			t.Errorf("told %+v", k)
		}
		return told
	})
	if got := report(honest, s.liveHash, 2); got != "" {
		t.Fatal(got)
	}
	toHonest(func(got wire.Share) bool {
		if k := got.Keys[s.live]; k.Spent == 2 && (k.Nodes != 1 || k.Missing > 2*ratelimit.Token) {
			t.Errorf("the victim's bucket is %+v", k)
		}
		return got.Keys[s.live].Spent == 2
	})
}

// TestStolenNodeSpeaksForNobody: where a thief asks to be answered, and what it sends
// once it is revoked, is counted.
func TestStolenNodeSpeaksForNobody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newStolen(t, f)
	body, _ := json.Marshal(wire.ChangesRequest{Head: head})
	if err := s.conn.PublishRequest(wire.Subject(s.id, wire.VerbChanges), wire.Changes, body); err != nil {
		t.Fatal(err)
	}
	ask[wire.ChangesReply](s.enrolled, wire.VerbChanges, wire.ChangesRequest{Head: head})
	f.eventually("the refusal is counted", func() bool {
		_, _, text := f.send("GET", "/metrics", nil, "")
		return strings.Contains(string(text), fmt.Sprintf("edge_origin_node_refusals_total{node=%q,reason=\"reply_subject\"} 1", s.id))
	})
	closed := make(chan struct{})
	s.conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
	f.must(200, "POST", "/admin/v1/nodes/"+s.id+"/revoke", nil)
	next(f, closed, "end of the thief's connection")
}

// enrolOld enrols a node as an origin that predates the hashes of keys did.
func (f *fixture) enrolOld() *enrolled {
	f.Helper()
	authority, err := natsauth.Open(filepath.Join(f.config.Dir, "nats"))
	if err != nil {
		f.Fatal(err)
	}
	n := &enrolled{fixture: f, id: store.NewID("node", time.Now()), errs: make(chan error, 100)}
	n.address = n.id
	var public string
	if n.credentials, public, err = authority.NodeUser(n.id, "eu-west"); err != nil {
		f.Fatal(err)
	}
	if _, err := f.config.DB.AddNode(f.Context(), store.Node{ID: n.id, PublicKey: public}); err != nil {
		f.Fatal(err)
	}
	if n.conn, err = n.connect(); err != nil {
		f.Fatal(err)
	}
	return n
}

// TestOldNode: a node that predates the hashes of keys works as it did, until it has
// spoken a version with them, for good. Leads that it kept before wait in the
// quarantine then, unless the node adds their keys' hashes.
func TestOldNode(t *testing.T) {
	t.Parallel()
	for name, allowed := range map[string]bool{"as it is": false, "with --allow-old-nodes": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.AllowOldNodes = allowed })
			s := newStolen(t, f)
			strict := s.enrolled
			s.enrolled = f.enrolOld()
			old := wire.Head{V: wire.KeyHashes - 1}
			view := func(n *enrolled, h wire.Head) wire.Failure {
				return ask[wire.ViewReply](n, wire.VerbView, wire.ViewRequest{Head: h, AccountID: s.victim, Kind: store.ChangeProfile}).Failure
			}
			subscribe := func(key string) wire.Failure {
				return ask[wire.SubscribeReply](s.enrolled, wire.VerbSubscribe, wire.SubscribeRequest{Head: old, Subscription: s.subscription(key, store.Live)}).Failure
			}
			if got := view(s.enrolled, old); got != "" {
				t.Errorf("a view: %q", got)
			}
			if got := subscribe(s.live); got != "" {
				t.Errorf("a subscription: %q", got)
			}
			if got := subscribe(s.ended); got != wire.Refused {
				t.Errorf("a subscription of a revoked key: %q", got)
			}
			if kept := s.leadsBy(old, store.AcceptedLead{Lead: s.lead(s.live)}); len(kept) != 1 {
				t.Errorf("its leads are %v", kept)
			}
			if got := view(strict, old); (got == "") != allowed {
				t.Errorf("a node that was enrolled with them speaks the version before: %q", got)
			}
			if !allowed {
				f.gauge("edge_origin_nodes_vouched", 1)
			}
			ask[wire.ChangesReply](s.enrolled, wire.VerbChanges, wire.ChangesRequest{Head: head})
			if !allowed {
				f.gauge("edge_origin_nodes_vouched", 0)
			}
			for range 2 {
				if got := view(s.enrolled, old); (got == "") != allowed {
					t.Errorf("once it has spoken the present version: %q", got)
				}
				if err := f.replication.Presence().Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			before := 1
			if allowed {
				before = 2
			}
			if kept := s.leads(store.AcceptedLead{Lead: s.lead(s.live)}); len(kept) != before {
				t.Errorf("its leads are %v, want %d", kept, before)
			}
			if n, err := f.config.DB.CountQuarantined(t.Context()); err != nil || n != 2-before {
				t.Errorf("%d leads wait, %v", n, err)
			}
		})
	}
}

// gauge requires that the origin shows a value.
func (f *fixture) gauge(name string, want int) {
	f.Helper()
	if _, _, text := f.send("GET", "/metrics", nil, ""); !strings.Contains(string(text), fmt.Sprintf("\n%s %d\n", name, want)) {
		f.Errorf("%s is not %d", name, want)
	}
}

// padded returns a message of as many bytes as NATS takes, most of them elements of a list.
func padded(begin, element, end string) []byte {
	n := (wire.MaxPayload - len(begin+element+end)) / len(","+element)
	return []byte(begin + element + strings.Repeat(","+element, n) + end)
}

// TestStolenNodeSendsMuch: what is too large is refused before it is decoded, and the origin
// goes on hearing the other nodes.
func TestStolenNodeSendsMuch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := newStolen(t, f)
	honest := f.enrol("honest")
	bodies := map[string][]byte{
		wire.VerbSubscribe: padded(`{"v":2,"subscription":{"events":[`, `""`, `]}}`),
		wire.VerbKey:       padded(`{"v":2,"more":[`, `""`, `]}`),
		wire.VerbSpend:     padded(`{"v":2,"boot":"b","keys":{`, `"k":{}`, `}}`),
		wire.VerbLeads:     padded(`{"v":2,"leads":[`, `0`, `]}`),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const times = 2
	for range times {
		for verb, body := range bodies {
			reply, err := s.conn.RequestWithContext(ctx, wire.Subject(s.address, verb), body)
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"v":2,"failure":"invalid"`; !strings.HasPrefix(string(reply.Data), want) {
				t.Errorf("%s: %s, want %s", verb, reply.Data, want)
			}
		}
		// A status is not answered.
		if err := s.conn.Publish(wire.Subject(s.id, wire.VerbStatus), padded(`{"v":2,"running":{"counts":{"failures":{`, `"a":1`, `}}}}`)); err != nil {
			t.Fatal(err)
		}
	}
	body, _ := json.Marshal(wire.Status{Head: head, Build: "1"})
	if err := honest.conn.Publish(wire.Subject(honest.id, wire.VerbStatus), body); err != nil {
		t.Fatal(err)
	}
	f.eventually("the other node's status is taken in", func() bool {
		return f.replication.Presence().Report(honest.id).Status.Build == "1"
	})
	f.eventually("the status is refused too", func() bool {
		_, _, text := f.send("GET", "/metrics", nil, "")
		return strings.Contains(string(text), fmt.Sprintf("edge_origin_node_refusals_total{node=%q,reason=\"too_large\"} %d\n", s.id, times*(len(bodies)+1)))
	})
	if !f.replication.Presence().Report(s.id).At.IsZero() {
		t.Error("a status that is too large was taken in")
	}
}

// TestStolenNodeAnswersMuch: what a node answers an operator is bounded in bytes and in length.
func TestStolenNodeAnswersMuch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	long := func(list, element string, n int) []byte {
		return []byte(`{"v":2,"` + list + `":[` + strings.Repeat(element+",", n) + element + `]}`)
	}
	for name, answers := range map[string]map[string][]byte{
		"large": {wire.VerbRequests: padded(`{"v":2,"requests":[`, `{}`, `]}`), wire.VerbLockouts: padded(`{"v":2,"lockouts":[`, `{}`, `]}`)},
		"long":  {wire.VerbRequests: long("requests", `{}`, wire.MaxRequests), wire.VerbLockouts: long("lockouts", `{}`, wire.MaxLockouts)},
	} {
		n := f.enrol(name)
		for verb, answer := range answers {
			if _, err := n.conn.Subscribe(wire.ToNode+n.address+"."+verb, func(q *nats.Msg) { _ = q.Respond(answer) }); err != nil { // the origin then says so
				t.Fatal(err)
			}
		}
		if err := n.conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/admin/v1/requests", "/admin/v1/lockouts"} {
		v := f.must(200, "GET", path, nil)
		if items := v["items"].([]any); len(items) != 0 {
			t.Errorf("%s: %d are listed", path, len(items))
		}
		text, _ := json.Marshal(v["unreached"])
		if !strings.Contains(string(text), "bytes, more than") || !strings.Contains(string(text), "answer lists") {
			t.Errorf("%s: unreached are %s", path, text)
		}
	}
}
