package origin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
)

// regionServer is the NATS server of a region, set up from what the origin writes.
func (f *fixture) regionServer(name string) *server.Server {
	f.Helper()
	dir := filepath.Join(f.config.Dir, "nats")
	shared, err := os.ReadFile(filepath.Join(dir, "region.conf"))
	if err != nil {
		f.Fatal(err)
	}
	conf := filepath.Join(f.TempDir(), name+".conf")
	text := strings.ReplaceAll(string(shared), `credentials: "`, `credentials: "`+dir+"/")
	text = strings.Replace(text, "./jwt", filepath.Join(f.TempDir(), name), 1) + fmt.Sprintf("\nserver_name: %s\nlisten: \"127.0.0.1:-1\"\n", name)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(conf)
	if err != nil {
		f.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		f.Fatal(err)
	}
	s.Start()
	f.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	f.eventually("the server of "+name+" to be a leaf of the origin's", func() bool { return s.NumLeafNodes() == 2 })
	return s
}

// in has a node connect to the server of its region from now on, and follow the changes.
func (m *enrolled) in(s *server.Server) (changes <-chan *nats.Msg) {
	m.Helper()
	m.conn.Close()
	var err error
	m.conn, err = nats.Connect(s.ClientURL(), nats.UserCredentialBytes([]byte(m.credentials)), nats.CustomInboxPrefix(wire.Inbox(m.id)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { m.errs <- err }), nats.MaxReconnects(0))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(m.conn.Close)
	pushed := make(chan *nats.Msg, 1000)
	if _, err := m.conn.ChanSubscribe(wire.Changes, pushed); err != nil {
		m.Fatal(err)
	}
	if err := m.conn.Flush(); err != nil {
		m.Fatal(err)
	}
	return pushed
}

// hears waits until a change of a record is pushed.
func (m *enrolled) hears(changes <-chan *nats.Msg, ref string) {
	m.Helper()
	for {
		var pushed wire.Changed
		if err := wire.Decode(next(m.fixture, changes, "change of "+ref).Data, &pushed); err != nil {
			m.Fatal(err)
		}
		for _, c := range pushed.Changes {
			if c.Ref == ref {
				return
			}
		}
	}
}

// TestRegionsByLeafNodes has two regions with NATS servers of their own. Nodes ask and
// hear as at the origin, one region is cut off without the other noticing, a revoked
// node is cut off by its region's server, and a region's own user may neither speak in
// the origin's name nor hear other regions' nodes.
func TestRegionsByLeafNodes(t *testing.T) {
	f := newFixture(t, func(c *Config) { c.NATSLeafListen = "127.0.0.1:0" })
	account := f.account("live")
	east, west := f.regionServer("east"), f.regionServer("west")
	one, two := f.enrol("one"), f.enrol("two")
	oneHears, twoHears := one.in(east), two.in(west)

	revoke := func() (id string) {
		id, _ = f.key(account, "live")
		f.must(200, "POST", "/admin/v1/keys/"+id+"/revoke", nil)
		return id
	}
	id := revoke()
	one.hears(oneHears, id)
	two.hears(twoHears, id)
	for _, n := range []*enrolled{one, two} {
		hash := f.hash(id)
		if reply := ask[wire.KeyReply](n, wire.VerbKey, wire.KeyRequest{Head: head, Hash: hash}); reply.Key == nil || reply.Key.ID != id {
			t.Errorf("node %s is told %+v of a key", n.id, reply)
		}
	}

	// Nodes answer what operators ask.
	for _, n := range []*enrolled{one, two} {
		n.answerLockouts("192.0.2.7")
		n.answerRequests(wire.AnsweredRequest{ID: "req_" + n.id, KeyID: id, AccountID: account, Method: "GET", Status: 200})
	}
	for _, path := range []string{"/admin/v1/lockouts", "/admin/v1/keys/" + id + "/requests"} {
		f.eventually("both nodes to answer "+path, func() bool { // their subscriptions take a moment to reach the origin
			v := f.must(200, "GET", path, nil)
			return len(v["items"].([]any)) == 2 && len(v["unreached"].([]any)) == 0
		})
	}

	// A region is cut off; the other goes on.
	west.Shutdown()
	west.WaitForShutdown()
	id = revoke()
	one.hears(oneHears, id)
	back := f.regionServer("west")
	twoHears = two.in(back)
	id = revoke()
	two.hears(twoHears, id)

	// What a region's server may not do, nobody who has its files may.
	user, err := nats.Connect(f.NATSURL(), nats.UserCredentials(filepath.Join(f.config.Dir, "nats", "region.creds")), nats.ErrorHandler(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	overheard := make(chan *nats.Msg, 10)
	for _, subject := range []string{wire.AnyNode + wire.VerbKey, wire.AnyNode + ">"} {
		if _, err := user.ChanSubscribe(subject, overheard); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{wire.Changes, wire.ToNode + one.id + "." + wire.VerbRelease} {
		if err := user.Publish(subject, []byte("made up")); err != nil {
			t.Fatal(err)
		}
	}
	if err := user.Flush(); err != nil {
		t.Fatal(err)
	}
	ask[wire.KeyReply](one, wire.VerbKey, wire.KeyRequest{Head: head, Hash: f.hash(id)})
	id = revoke()
	one.hears(oneHears, id) // and nothing that is no message before it
	if len(overheard) > 0 {
		t.Errorf("a region's user hears %s", (<-overheard).Subject)
	}

	// A node's revocation reaches the server of its region.
	f.must(200, "POST", "/admin/v1/nodes/"+one.id+"/revoke", nil)
	f.eventually("the revoked node to be cut off by its region's server", one.conn.IsClosed)
	if _, err := nats.Connect(east.ClientURL(), nats.UserCredentialBytes([]byte(one.credentials)), nats.Timeout(5*time.Second)); err == nil {
		t.Error("a revoked node connects to its region's server")
	}
	id = revoke()
	two.hears(twoHears, id)
}
