package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"oras.land/oras-go/v2/content/oci"

	"partneredge/edge/addresstest"
	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/ratelimit"
)

const testNode = "node_test"

// testOrigin answers a node over a real NATS server from what a test puts in.
type testOrigin struct {
	t           *testing.T
	url         string
	credentials string // file, of the node

	operator, account nkeys.KeyPair
	memory            bool // nodes reach it by Dial alone
	server            *server.Server
	conn              *nats.Conn

	mu         sync.Mutex
	keys       map[string]store.Key // by hash
	unread     map[string]bool      // hashes of keys that cannot be read
	whole      bool                 // a refill with one of them fails, as at an origin that predates partial answers
	accounts   map[string]store.Account
	insights   map[string][]store.Insight
	firings    map[string][]store.Firing
	subs       map[string]store.Subscription
	leads      map[string]int // id -> times handed over
	changes    []store.Change
	pruned     int64            // changes up to this one are forgotten
	history    string           // of the changes; "" names none, as an older origin does
	goesOn     map[string]int64 // earlier histories -> up to which change the present one goes on from
	asked      map[string]int   // verb -> requests, of keys each key of a request
	mute       map[string]bool  // verbs that get no answer
	unanswered []*nats.Msg      // requests of mute verbs
	fail       map[string]wire.Failure
	refuse     map[string]string    // lead -> why it is rejected
	raws       map[string]string    // lead that was handed over raw -> its body
	onces      map[wire.Once]string // ids of subscriptions
	older      bool                 // raw leads and further keys are ignored, as by an older origin
	status     *wire.Status
	merger     *ratelimit.Merger
	now        func() time.Time                     // the merger's clock
	usage      []wire.Usage                         // reported, in order
	hold       func(verb string)                    // called before an answer is sent
	heard      func(node, verb string, data []byte) // called with each message
	// spoilKeys is called with each answer of many keys; nil for nothing.
	spoilKeys func(*wire.KeyReply) wire.Failure
	releases  *oci.Store
	layout    string                                                // of releases
	ordered   []byte                                                // the last order, told again until it is obeyed
	spoil     func(*wire.BlobRequest, *wire.BlobReply) wire.Failure // called with each answer of a blob; nil for nothing
}

func newOrigin(t *testing.T) *testOrigin {
	t.Helper()
	o := makeOrigin(t)
	o.start()
	t.Cleanup(o.stop)
	return o
}

// makeOrigin makes one that has not been started.
func makeOrigin(t *testing.T) *testOrigin {
	t.Helper()
	o := &testOrigin{
		t: t, keys: map[string]store.Key{}, accounts: map[string]store.Account{}, insights: map[string][]store.Insight{},
		firings: map[string][]store.Firing{}, subs: map[string]store.Subscription{}, leads: map[string]int{},
		merger: new(ratelimit.Merger), now: time.Now, asked: map[string]int{}, mute: map[string]bool{}, fail: map[string]wire.Failure{}, refuse: map[string]string{}, raws: map[string]string{}, onces: map[wire.Once]string{},
		layout: t.TempDir(),
	}
	o.releases = must(oci.New(o.layout))(t)
	o.operator, o.account = must(nkeys.CreateOperator())(t), must(nkeys.CreateAccount())(t)
	o.credentials = o.enrol(testNode)
	return o
}

// enrol makes the file of a node's credentials.
func (o *testOrigin) enrol(node string) (credentials string) {
	o.t.Helper()
	credentials = filepath.Join(o.t.TempDir(), "node.creds")
	text := o.user(node, func(u *jwt.UserClaims) {
		u.Pub.Allow.Add(wire.Prefix + node + ".>")
		u.Sub.Allow.Add(wire.Changes, wire.ToNode+node+".>", wire.Inbox(node)+".>")
	})
	if err := os.WriteFile(credentials, text, 0o600); err != nil {
		o.t.Fatal(err)
	}
	return credentials
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (o *testOrigin) user(name string, permit func(*jwt.UserClaims)) []byte {
	user := must(nkeys.CreateUser())(o.t)
	claims := jwt.NewUserClaims(must(user.PublicKey())(o.t))
	claims.Name = name
	permit(claims)
	token := must(claims.Encode(o.account))(o.t)
	return must(jwt.FormatUserConfig(token, must(user.Seed())(o.t)))(o.t)
}

// start starts the server, on the port that it had before.
func (o *testOrigin) start() {
	o.t.Helper()
	accountID := must(o.account.PublicKey())(o.t)
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountID, must(jwt.NewAccountClaims(accountID).Encode(o.operator))(o.t)); err != nil {
		o.t.Fatal(err)
	}
	if o.url == "" {
		o.url = "nats://" + addresstest.Fixed(o.t)
	}
	opts := &server.Options{
		Host: "127.0.0.1", DontListen: o.memory, NoSigs: true, NoLog: true, AuthTimeout: 60, MaxPayload: wire.MaxPayload,
		TrustedKeys: []string{must(o.operator.PublicKey())(o.t)}, AccountResolver: resolver,
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(o.url, "nats://"))
	if _, err := fmt.Sscan(port, &opts.Port); err != nil {
		o.t.Fatal(err)
	}
	started := must(server.NewServer(opts))(o.t)
	o.do(func() { o.server = started })
	o.server.Start()
	if !o.server.ReadyForConnections(time.Minute) {
		o.t.Fatal("NATS is not ready")
	}
	o.url = o.server.ClientURL()
	o.conn = must(nats.Connect(o.url, nats.InProcessServer(o.server), nats.Timeout(time.Minute),
		nats.UserCredentialBytes(o.user("origin", func(*jwt.UserClaims) {}))))(o.t)
	for _, verb := range []string{wire.VerbKey, wire.VerbView, wire.VerbChanges, wire.VerbLeads, wire.VerbSubscribe, wire.VerbRevoke, wire.VerbStatus, wire.VerbSpend, wire.VerbBlob, wire.VerbSignatures} {
		must(o.conn.Subscribe(wire.AnyNode+verb, func(m *nats.Msg) { o.serve(verb, m) }))(o.t)
	}
	if err := o.conn.Flush(); err != nil {
		o.t.Fatal(err)
	}
}

// stop takes the origin away. It may be called twice.
func (o *testOrigin) stop() {
	o.conn.Close()
	o.server.Shutdown()
	o.server.WaitForShutdown()
}

// Dial implements nats.CustomDialer, without a network.
func (o *testOrigin) Dial(string, string) (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.server.InProcessConn() // fails while the origin is away
}

func (o *testOrigin) serve(verb string, m *nats.Msg) {
	node, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, wire.Prefix), ".")
	o.mu.Lock()
	o.asked[verb]++
	if verb == wire.VerbKey {
		o.asked[verb] += len(read[wire.KeyRequest](o.t, m.Data).More)
	}
	if o.heard != nil {
		o.heard(node, verb, m.Data)
	}
	if o.mute[verb] {
		if m.Reply != "" {
			o.unanswered = append(o.unanswered, m)
		}
		o.mu.Unlock()
		return
	}
	var reply wire.Message
	failure := o.fail[verb]
	if failure == "" {
		reply, failure = o.answer(node, verb, m.Data)
	}
	hold := o.hold
	o.mu.Unlock()
	if hold != nil {
		hold(verb)
	}
	if m.Reply == "" {
		return
	}
	if reply == nil {
		reply = &wire.Head{}
	}
	*reply.Header() = wire.Head{Failure: failure}
	body, err := wire.Encode(reply)
	if err != nil {
		o.t.Error(err)
	}
	_ = m.Respond(body) // the test may have taken the server away
}

func (o *testOrigin) answer(node, verb string, data []byte) (wire.Message, wire.Failure) {
	seq := int64(len(o.changes))
	switch verb {
	case wire.VerbKey:
		req := read[wire.KeyRequest](o.t, data)
		if len(req.More) > 0 && !o.older {
			reply := &wire.KeyReply{Seq: seq}
			for i, hash := range append([][]byte{req.Hash}, req.More...) {
				key, ok := o.keys[string(hash)]
				if o.unread[string(hash)] {
					reply.Keys, reply.Unread = append(reply.Keys, nil), append(reply.Unread, i)
				} else if key.Hash = [32]byte{}; !ok {
					reply.Keys = append(reply.Keys, nil)
				} else {
					reply.Keys = append(reply.Keys, &key)
				}
			}
			if o.spoilKeys != nil {
				return reply, o.spoilKeys(reply)
			}
			return reply, ""
		}
		if o.unread[string(req.Hash)] {
			return nil, wire.Internal
		}
		key, ok := o.keys[string(req.Hash)]
		if !ok {
			return &wire.KeyReply{Seq: seq}, wire.NotFound
		}
		return &wire.KeyReply{Key: &key, Seq: seq}, ""
	case wire.VerbView:
		req := read[wire.ViewRequest](o.t, data)
		o.proven(verb, req.KeyHash, req.AccountID)
		return o.view(req, seq)
	case wire.VerbChanges:
		req := read[wire.ChangesRequest](o.t, data)
		ended, before := o.goesOn[req.History]
		other := o.history != "" && req.History != "" && req.History != o.history && (!before || req.Since > ended)
		if req.Since < o.pruned || req.Since > seq || other {
			return &wire.ChangesReply{Latest: seq, History: o.history, Reset: true}, ""
		}
		changes := o.changes[req.Since:]
		return &wire.ChangesReply{Changes: changes[:min(len(changes), req.Limit)], Latest: seq, History: o.history}, ""
	case wire.VerbLeads:
		reply := &wire.LeadsReply{Rejected: map[string]string{}}
		for _, l := range leadsOf(o.t, data) {
			if why, ok := o.refuse[l.ID]; ok && why == "" {
				return nil, wire.Invalid
			} else if ok {
				reply.Rejected[l.ID] = why
				continue
			}
			o.leads[l.ID]++
			o.proven(verb, l.KeyHash, l.AccountID)
			reply.Committed = append(reply.Committed, l.ID)
		}
		if o.older {
			return reply, ""
		}
		for _, raw := range read[wire.LeadsRequest](o.t, data).Raw {
			o.raws[raw.ID] = string(raw.Body)
			reply.Committed = append(reply.Committed, raw.ID)
		}
		return reply, ""
	case wire.VerbSubscribe:
		req := read[wire.SubscribeRequest](o.t, data)
		s := req.Subscription
		o.proven(verb, req.KeyHash, s.AccountID)
		if strings.Contains(s.TargetURL, "internal") {
			return &wire.SubscribeReply{Reason: "host_not_public"}, ""
		}
		if once := read[wire.SubscribeRequest](o.t, data).Once; once != nil && !o.older {
			if before, used := o.subs[o.onces[*once]]; used {
				return &wire.SubscribeReply{Repeated: &before}, ""
			}
			o.onces[*once] = s.ID
		}
		o.subs[s.ID] = s
		return &wire.SubscribeReply{}, ""
	case wire.VerbRevoke:
		req := read[wire.RevokeRequest](o.t, data)
		if !req.Untold {
			o.proven(verb, req.KeyHash, req.AccountID)
		}
		s, ok := o.subs[req.ID]
		if !ok || s.AccountID != req.AccountID {
			return nil, wire.NotFound
		}
		already := !s.RevokedAt.IsZero()
		s.RevokedAt = time.Now()
		o.subs[req.ID] = s
		return &wire.RevokeReply{Already: already}, ""
	case wire.VerbBlob:
		return o.blob(read[wire.BlobRequest](o.t, data))
	case wire.VerbSignatures:
		all, err := release.OCI(o.releases).Signatures(context.Background(), read[wire.SignaturesRequest](o.t, data).Digest)
		if err != nil {
			return nil, wire.NotFound
		}
		return &wire.SignaturesReply{Signatures: all}, ""
	case wire.VerbStatus:
		status := read[wire.Status](o.t, data)
		o.status = &status
	case wire.VerbSpend:
		o.share(node, read[wire.Spend](o.t, data))
	}
	return nil, ""
}

// proven requires that a node names a key of the account by its hash.
func (o *testOrigin) proven(verb string, hash []byte, account string) {
	if o.keys[string(hash)].AccountID != account {
		o.t.Errorf("%s of %s with the hash %x", verb, account, hash)
	}
}

// share takes the node's report in and answers it.
func (o *testOrigin) share(node string, s wire.Spend) {
	from := ratelimit.Reporter{Node: node, Boot: s.Boot}
	reports := map[string]ratelimit.Report{}
	for id, key := range s.Keys {
		for hash, known := range o.keys {
			if known.ID == id && string(key.KeyHash) != hash {
				o.t.Errorf("a report of %s with the hash %x", id, key.KeyHash)
			}
		}
		reports[id] = key.Report
	}
	answer := wire.Share{Head: wire.Head{V: wire.Version}, Boot: s.Boot, Keys: o.merger.Merge(from, reports, o.now().UnixMicro())}
	if s.Usage != nil {
		o.usage = append(o.usage, *s.Usage)
		answer.Used = &wire.Used{Boot: s.Usage.Boot, Seq: s.Usage.Seq}
	}
	body := must(json.Marshal(answer))(o.t)
	_ = o.conn.Publish(wire.ToNode+node+"."+wire.VerbShare, body) // the test may have taken the server away
}

// spend returns the tokens that the key's bucket lacks, those spent at another node included.
func (o *testOrigin) spend(key string, more int64) (tokens int64) {
	shares := o.merger.Merge(ratelimit.Reporter{Node: "other"}, map[string]ratelimit.Report{key: {Limit: 100, Spent: more}}, o.now().UnixMicro())
	return shares[key].Missing / ratelimit.Token
}

func (o *testOrigin) view(req wire.ViewRequest, seq int64) (wire.Message, wire.Failure) {
	reply := &wire.ViewReply{Seq: seq}
	switch req.Kind {
	case store.ChangeProfile:
		a, ok := o.accounts[req.AccountID]
		if !ok {
			return reply, wire.NotFound
		}
		reply.Account = &a
	case store.ChangeInsights:
		reply.Insights = o.insights[req.AccountID]
		reply.Insights = reply.Insights[:min(len(reply.Insights), 50)]
		reply.History = len(reply.Insights) > 0
	case store.ChangeFirings:
		limit := req.Limit
		if limit == 0 {
			limit = 100
		}
		for _, f := range o.firings[req.AccountID] {
			if !req.Before.IsZero() && !f.TriggeredAt.Before(req.Before) {
				continue
			}
			if len(reply.Firings) == limit {
				reply.More = true
				break
			}
			reply.Firings = append(reply.Firings, f)
		}
	}
	return reply, ""
}

// leadsOf reads the leads of a LeadsRequest.
func leadsOf(t *testing.T, data []byte) (leads []store.AcceptedLead) {
	for _, body := range read[wire.LeadsRequest](t, data).Leads {
		leads = append(leads, read[store.AcceptedLead](t, body))
	}
	return leads
}

func read[T any](t *testing.T, data []byte) (v T) {
	if err := json.Unmarshal(data, &v); err != nil {
		t.Errorf("node sent %s: %v", data, err)
	}
	return v
}

// do changes the origin under its lock.
func (o *testOrigin) do(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// failUnanswered ends the waits of all requests that were not answered.
func (o *testOrigin) failUnanswered() {
	o.t.Helper()
	body := must(wire.Encode(&wire.Head{Failure: wire.Internal}))(o.t)
	o.do(func() {
		for _, m := range o.unanswered {
			if err := m.Respond(body); err != nil {
				o.t.Error(err)
			}
		}
		o.unanswered = nil
	})
}

// requests counts the requests of a verb.
func (o *testOrigin) requests(verb string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked[verb]
}

// change numbers a change; push sends it to the nodes.
func (o *testOrigin) change(kind store.ChangeKind, ref string, gone bool) store.Change {
	c := store.Change{Seq: int64(len(o.changes)) + 1, Kind: kind, Ref: ref, Gone: gone}
	o.changes = append(o.changes, c)
	return c
}

func (o *testOrigin) push(changes ...store.Change) {
	o.t.Helper()
	o.mu.Lock()
	latest, history := int64(len(o.changes)), o.history
	o.mu.Unlock()
	body := must(json.Marshal(wire.Changed{Head: wire.Head{V: wire.Version}, Changes: changes, Latest: latest, History: history}))(o.t)
	if err := o.conn.Publish(wire.Changes, body); err != nil {
		o.t.Fatal(err)
	}
}

// addKey adds a live key with all scopes and returns its plaintext.
func (o *testOrigin) addKey(id string, edit func(*store.Key)) string {
	plain := plaintext(id)
	k := store.Key{
		ID: id, AccountID: "acc_1", Hash: sha256.Sum256([]byte(plain)), Environment: store.Live, RateLimit: 100,
		Scopes:    []string{store.ScopeReadAgent, store.ScopeReadCoaching, store.ScopeReadSentinels, store.ScopeWriteWebhooks, store.ScopeWriteLeads},
		ExpiresAt: time.Now().Add(24 * time.Hour),
	}
	if edit != nil {
		edit(&k)
	}
	o.do(func() {
		o.keys[string(k.Hash[:])] = k
		o.change(store.ChangeKey, id, false)
	})
	return plain
}

// editKey changes a key and returns the change, which is not pushed yet.
func (o *testOrigin) editKey(plain string, gone bool, edit func(*store.Key)) (c store.Change) {
	hash := sha256.Sum256([]byte(plain))
	o.do(func() {
		k := o.keys[string(hash[:])]
		edit(&k)
		o.keys[string(hash[:])] = k
		c = o.change(store.ChangeKey, k.ID, gone)
	})
	return c
}
