package origin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/certificate/certificatetest"
	"partneredge/edge/wire"
)

// leaf is the NATS server of a region.
type leaf struct {
	*server.Server
	id  string // of its enrolment
	dir string // of its files
}

// enrolRegion makes the files of a region's server.
func (f *fixture) enrolRegion(region string) (l leaf) {
	f.Helper()
	return f.enrolLeaf(object{"region": region})
}

// enrolLeaf is enrolRegion for a request of any content.
func (f *fixture) enrolLeaf(request object) (l leaf) {
	f.Helper()
	made := f.must(201, "POST", "/admin/v1/regions", request)
	l = leaf{id: made["region"].(object)["id"].(string), dir: f.TempDir()}
	for file, text := range map[string]any{"region.conf": made["config"], "region.creds": made["credentials"], "region-system.creds": made["system_credentials"]} {
		if err := os.WriteFile(filepath.Join(l.dir, file), []byte(text.(string)), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	return l
}

// start starts the server of a region with its files.
func (f *fixture) startLeaf(l leaf) leaf {
	f.Helper()
	shared, err := os.ReadFile(filepath.Join(l.dir, "region.conf"))
	if err != nil {
		f.Fatal(err)
	}
	conf := filepath.Join(l.dir, "nats.conf")
	text := strings.NewReplacer(`credentials: "`, `credentials: "`+l.dir+"/", `ca_file: "./`, `ca_file: "`+l.dir+"/").Replace(string(shared))
	text = strings.Replace(text, "./jwt", f.TempDir(), 1) + "\nlisten: \"127.0.0.1:-1\"\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(conf)
	if err != nil {
		f.Fatal(err)
	}
	opts.NoSigs, opts.NoLog, opts.AuthTimeout = true, true, 60 // seconds: this machine may be slow
	if l.Server, err = server.NewServer(opts); err != nil {
		f.Fatal(err)
	}
	l.Start()
	f.Cleanup(func() {
		l.Shutdown()
		l.WaitForShutdown()
	})
	f.eventually("the region's server to be a leaf of the origin's", func() bool { return l.NumLeafNodes() == 2 })
	return l
}

// user connects to the origin's NATS with the credentials of a region's server.
func (f *fixture) user(l leaf) (conn *nats.Conn, refused chan error) {
	f.Helper()
	refused = make(chan error, 100)
	conn, err := nats.Connect(f.NATSURL(), nats.UserCredentials(filepath.Join(l.dir, "region.creds")), nats.MaxReconnects(0), nats.Timeout(time.Minute),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(conn.Close)
	return conn, refused
}

// mustNotConnect fails unless the NATS server at an address refuses credentials: one that cannot
// be reached, or does not answer in time, refuses nothing.
func mustNotConnect(t *testing.T, who, address string, credentials nats.Option) {
	t.Helper()
	conn, err := nats.Connect(address, credentials, nats.Timeout(time.Minute))
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("%s connects: %v, want a refusal", who, err)
	}
}

// regional makes a node whose address names its region.
func (f *fixture) regional(name, region string) *enrolled {
	f.Helper()
	m := f.enrolOnly(name, region)
	m.address = wire.RegionalAddress(region, m.id)
	return m
}

// in has a node connect to the server of its region from now on, and follow the changes.
func (m *enrolled) in(s leaf) (changes <-chan *nats.Msg) {
	m.Helper()
	if m.conn != nil {
		m.conn.Close()
	}
	var err error
	m.conn, err = nats.Connect(s.ClientURL(), nats.UserCredentialBytes([]byte(m.credentials)), nats.CustomInboxPrefix(wire.Inbox(m.address)), nats.Timeout(time.Minute),
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
	// The origin's server learns of the subscription a moment later. It is told where
	// the log ends every second, which shows that it has.
	next(m.fixture, pushed, "message to "+m.id+" by its region's server")
	return pushed
}

// hears waits until a change of a record is pushed.
func (m *enrolled) hears(changes <-chan *nats.Msg, ref string) {
	m.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		if time.Now().After(deadline) {
			m.Fatalf("after a minute node %s has still not heard of %s", m.id, ref)
		}
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

// says sends a node's status over a connection, as a node of a region.
func says(t *testing.T, conn *nats.Conn, address, build string) {
	t.Helper()
	body, err := wire.Encode(&wire.Status{Build: build})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Publish(wire.Subject(address, wire.VerbStatus), body); err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

// build returns the build that a node reported last.
func (m *enrolled) build() string { return m.replication.Presence().Report(m.id).Status.Build }

// TestRegionTrustsOwnAuthority has a region's server connect to an origin whose certificate
// nobody signed whom the system trusts.
func TestRegionTrustsOwnAuthority(t *testing.T) {
	t.Parallel()
	cert, key := certificatetest.Write(t, t.TempDir())
	f := newFixture(t, func(c *Config) { c.NATSLeafListen, c.NATSCert, c.NATSKey = "127.0.0.1:0", cert, key })
	l := f.enrolLeaf(object{"region": "east", "ca_file": "./region-ca.pem"})
	text, err := os.ReadFile(cert)
	if err == nil {
		err = os.WriteFile(filepath.Join(l.dir, "region-ca.pem"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.startLeaf(l)
}

// TestRegionsByLeafNodes has two regions with NATS servers of their own. Nodes ask and
// hear as at the origin, one region is cut off without the other noticing, and a revoked
// node is cut off by its region's server.
func TestRegionsByLeafNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.NATSLeafListen = "127.0.0.1:0" })
	account := f.account("live")
	east, west := f.startLeaf(f.enrolRegion("east")), f.startLeaf(f.enrolRegion("west"))
	one, two := f.regional("one", "east"), f.regional("two", "west")
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
	back := f.startLeaf(west)
	twoHears = two.in(back)
	id = revoke()
	two.hears(twoHears, id)

	// A node's revocation reaches the server of its region.
	f.must(200, "POST", "/admin/v1/nodes/"+one.id+"/revoke", nil)
	f.eventually("the revoked node to be cut off by its region's server", one.conn.IsClosed)
	mustNotConnect(t, "a revoked node", east.ClientURL(), nats.UserCredentialBytes([]byte(one.credentials)))
	id = revoke()
	two.hears(twoHears, id)
}

// TestHostileRegion has whoever holds the files of one region's server try to speak and
// hear for another region and for the origin: nothing comes of it. Once the server is
// revoked it is cut off, and the other region notices nothing.
func TestHostileRegion(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.NATSLeafListen = "127.0.0.1:0" })
	account := f.account("live")
	east, west := f.startLeaf(f.enrolRegion("east")), f.startLeaf(f.enrolRegion("west"))
	victim, own := f.regional("victim", "west"), f.regional("own", "east")
	victimHears, _ := victim.in(west), own.in(east)
	says(t, victim.conn, victim.address, "true")
	says(t, own.conn, own.address, "true")
	f.eventually("both nodes to be heard", func() bool { return victim.build() == "true" && own.build() == "true" })

	user, refused := f.user(east)
	for _, subject := range []string{
		wire.Subject(victim.address, wire.VerbStatus), wire.Subject(victim.id, wire.VerbStatus), wire.Subject(own.id, wire.VerbStatus),
		wire.Subject(victim.address, wire.VerbLockouts) + ".x", wire.Inbox(victim.address) + ".x",
		wire.Changes, wire.WakeUp, wire.ToNode + victim.address + "." + wire.VerbRelease, wire.ToNode + own.address + "." + wire.VerbRelease,
	} {
		if err := user.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := next(f, refused, "refusal to publish "+subject); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("publishing %s: %v", subject, err)
		}
	}
	for _, subject := range []string{
		">", "*.*.*", "*.*.*.*", wire.AnyNode + wire.VerbKey, wire.AnyRegion + wire.VerbKey, wire.ToNode + ">", wire.ToNode + victim.address + ".>", wire.ToNode + victim.id + ".>",
		wire.Inbox(victim.address) + ".>", wire.Inbox(victim.id) + ".>", wire.Inbox(wire.RegionToken("west")) + ".>",
	} {
		if _, err := user.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := next(f, refused, "refusal to subscribe to "+subject); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("subscribing to %s: %v", subject, err)
		}
	}

	// It may name its own region and another's node: the origin does not take that. The
	// status of its own node, sent later, shows that the origin has read it.
	says(t, user, wire.RegionalAddress("east", victim.id), "forged")
	says(t, user, own.address, "forged")
	f.eventually("the status of its own node", func() bool { return own.build() == "forged" })
	if build := victim.build(); build != "true" {
		t.Errorf("another region's node is said to run %q", build)
	}
	if address := f.replication.Presence().Address(victim.id); address != victim.address {
		t.Errorf("the origin speaks to another region's node at %s", address)
	}

	// Revoked, it is cut off: its users, and its server with them.
	state := func(id string) (connected, revoked bool) {
		for _, item := range f.must(200, "GET", "/admin/v1/regions", nil)["items"].([]any) {
			if r := item.(object); r["id"] == id {
				return r["connected"].(bool), r["revoked_at"] != nil
			}
		}
		t.Fatalf("no server %s", id)
		return false, false
	}
	if connected, revoked := state(east.id); !connected || revoked {
		t.Errorf("before its revocation: connected %t, revoked %t", connected, revoked)
	}
	f.must(200, "POST", "/admin/v1/regions/"+east.id+"/revoke", nil)
	f.eventually("the user to be cut off", user.IsClosed)
	f.eventually("the server to be cut off", func() bool { return east.NumLeafNodes() == 0 })
	for _, file := range []string{"region.creds", "region-system.creds"} {
		mustNotConnect(t, file+" of a revoked server", f.NATSURL(), nats.UserCredentials(filepath.Join(east.dir, file)))
	}
	f.eventually("the origin to see it away", func() bool { connected, revoked := state(east.id); return !connected && revoked })
	id, _ := f.key(account, "live")
	f.must(200, "POST", "/admin/v1/keys/"+id+"/revoke", nil)
	victim.hears(victimHears, id)
	if connected, revoked := state(west.id); !connected || revoked {
		t.Errorf("the other region: connected %t, revoked %t", connected, revoked)
	}

	// Enrolled again, the region's nodes come back.
	back := f.startLeaf(f.enrolRegion("east"))
	own.in(back)
	says(t, own.conn, own.address, "back")
	f.eventually("the region's node to be heard again", func() bool { return own.build() == "back" })
}

// TestSharedRegionCredentials: what an earlier program made for the servers of all
// regions goes on, is listed, and can be revoked.
func TestSharedRegionCredentials(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.NATSLeafListen = "127.0.0.1:0" })
	l := f.enrolRegion("east")
	dir := filepath.Join(f.config.Dir, "nats")
	for _, file := range []string{"region.creds", "region-system.creds"} {
		if err := os.Rename(filepath.Join(l.dir, file), filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	f.stop()
	f.start() // which makes them anew, since they allow something else
	l.dir = dir
	user, _ := f.user(l)
	var shared string
	for _, item := range f.must(200, "GET", "/admin/v1/regions", nil)["items"].([]any) {
		if r := item.(object); r["region"] == "" && r["revoked_at"] == nil {
			shared = r["id"].(string)
		}
	}
	if shared == "" {
		t.Fatal("the shared credentials are not listed")
	}
	f.must(200, "POST", "/admin/v1/regions/"+shared+"/revoke", nil)
	f.eventually("the shared user to be cut off", user.IsClosed)
}

// TestMadeUpNodes: the NATS server of a region that speaks for nodes which do not exist fills
// neither the log nor the metrics.
func TestMadeUpNodes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.NATSLeafListen = "127.0.0.1:0" })
	conn, _ := f.user(f.enrolRegion("east"))
	const nodes = 50
	for i := range nodes {
		address := wire.RegionalAddress("east", fmt.Sprint("node_made_up_", i))
		if err := conn.PublishRequest(wire.Subject(address, wire.VerbChanges), wire.Changes, []byte(`{"v":2}`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	metrics := func() string {
		_, _, text := f.send("GET", "/metrics", nil, "")
		return string(text)
	}
	for _, reason := range []string{"not_enrolled", "reply_subject"} {
		line := fmt.Sprintf("edge_origin_node_refusals_total{node=\"unknown\",reason=%q} %d", reason, nodes)
		f.eventually(line, func() bool { return strings.Contains(metrics(), line) })
	}
	if strings.Contains(metrics(), "made_up") {
		t.Error("the metrics name nodes that there are not")
	}
	warnings := func() (n int) {
		for line := range strings.Lines(f.logs.String()) {
			if strings.Contains(line, "level=WARN") && strings.Contains(line, "made_up") {
				n++
			}
		}
		return n
	}
	f.eventually("both warnings", func() bool { return warnings() >= 2 }) // each follows its count
	if n := warnings(); n != 2 {
		t.Errorf("%d warnings", n)
	}
}
