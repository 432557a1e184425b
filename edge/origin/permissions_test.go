package origin

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/origin/natsauth"
	"partneredge/edge/wire"
	"partneredge/store"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.enrol("a"), f.enrol("b")
	keyA, nameA := publicKeyOf(t, a.credentials)
	keyB, _ := publicKeyOf(t, b.credentials)
	if nameA != a.id || keyA == keyB {
		t.Errorf("credentials of %s are for %q", a.id, nameA)
	}
	if _, err := nats.Connect(f.NATSURL()); err == nil {
		t.Error("connected without credentials")
	}
	foreign, err := natsauth.Open(t.TempDir() + "/nats")
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := foreign.NodeUser(a.id, "eu-west")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Connect(f.NATSURL(), nats.UserCredentialBytes([]byte(forged))); err == nil {
		t.Error("connected with another authority's credentials")
	}
}

func TestNodeSpeaksOnlyAsItself(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.enrol("a"), f.enrol("b")
	for _, subject := range []string{
		wire.Subject(b.id, wire.VerbLeads), wire.Changes, wire.WakeUp, wire.ToNode + b.id + ".share", wire.ToNode + a.id + ".share",
		wire.Inbox(b.id) + ".x", wire.Inbox(a.id) + ".x", "anything", "$SYS.REQ.SERVER.PING",
	} {
		if err := a.conn.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := a.conn.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := next(f, a.errs, "refusal to publish "+subject); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("publishing %s: %v", subject, err)
		}
	}
	for _, subject := range []string{
		">", wire.WakeUp, "edge.>", "edge.v1.>", "edge.v1.*", wire.AnyNode + wire.VerbLeads, wire.Subject(b.id, wire.VerbLeads),
		wire.Subject(a.id, wire.VerbLeads), wire.ToNode + b.id + ".>", wire.ToNode + ">", wire.Inbox(b.id) + ".>", "_INBOX.>", "*.>", "$SYS.>",
	} {
		if _, err := a.conn.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := a.conn.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := next(f, a.errs, "refusal to subscribe "+subject); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("subscribing %s: %v", subject, err)
		}
	}
	for _, subject := range []string{wire.Changes, wire.ToNode + a.id + ".>", wire.ToNode + a.id + ".share", wire.Inbox(a.id) + ".>"} {
		if _, err := a.conn.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-a.errs:
		t.Errorf("what it may read is refused: %v", err)
	default:
	}
}

// The origin may publish anywhere, so it must not let a node choose where.
func TestOriginAnswersOnlyIntoTheNodesInbox(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.enrol("a"), f.enrol("b")
	got := make(chan *nats.Msg, 100)
	for _, subject := range []string{wire.Changes, wire.ToNode + b.id + ".>", wire.Inbox(b.id) + ".>"} {
		if _, err := b.conn.ChanSubscribe(subject, got); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	request, _ := json.Marshal(wire.ChangesRequest{Head: head, Since: 1 << 40})
	for _, reply := range []string{wire.Changes, wire.ToNode + b.id + ".share", wire.Inbox(b.id) + ".1", wire.Inbox(a.id), wire.Inbox(a.id) + "x.1"} {
		if err := a.conn.PublishRequest(wire.Subject(a.id, wire.VerbChanges), reply, request); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if r := ask[wire.ChangesReply](a, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != "" {
		t.Fatal(r)
	}
	f.replication.Stop(t.Context()) // waits until all have been dealt with
	for _, conn := range []*nats.Conn{f.broker.Conn(), b.conn} {
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for {
		select {
		case m := <-got:
			var c wire.ChangesReply
			if err := json.Unmarshal(m.Data, &c); err != nil || c.Reset {
				t.Errorf("b was sent %q on %s", m.Data, m.Subject)
			}
			continue
		default:
		}
		break
	}
}

func TestRevokedNodeIsOut(t *testing.T) {
	t.Parallel()
	for name, path := range map[string][2]string{
		"by POST":   {"POST", "/revoke"},
		"by DELETE": {"DELETE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			a, b := f.enrol("a"), f.enrol("b")
			closed := make(chan struct{})
			a.conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
			v := f.must(200, path[0], "/admin/v1/nodes/"+a.id+path[1], nil)
			if v["revoked_at"] == nil {
				t.Errorf("answered %v", v)
			}
			next(f, closed, "end of the connection")
			if _, err := a.connect(nats.MaxReconnects(0)); err == nil {
				t.Error("connected again")
			}
			again := f.must(200, path[0], "/admin/v1/nodes/"+a.id+path[1], nil)
			if again["revoked_at"] != v["revoked_at"] {
				t.Errorf("revoked again at %v", again["revoked_at"])
			}
			if r := ask[wire.ChangesReply](b, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != "" {
				t.Errorf("the other node: %+v", r)
			}

			f.stop()
			f.start()
			if _, err := a.connect(nats.MaxReconnects(0)); err == nil {
				t.Error("connected after a restart")
			}
			conn, err := b.connect()
			if err != nil {
				t.Fatalf("the other node after a restart: %v", err)
			}
			b.conn = conn
			if r := ask[wire.ChangesReply](b, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != "" {
				t.Errorf("the other node after a restart: %+v", r)
			}
		})
	}
}

// A revocation that another process wrote is carried out as well.
func TestRevocationElsewhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.enrol("a")
	closed := make(chan struct{})
	a.conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
	if _, _, err := f.config.DB.RevokeNode(t.Context(), a.id); err != nil {
		t.Fatal(err)
	}
	next(f, closed, "end of the connection")
}

// Whoever knocks at the port with credentials of others fills no log.
func TestKnockingIsWarnedOfSeldom(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	foreign, err := natsauth.Open(t.TempDir() + "/nats")
	if err != nil {
		t.Fatal(err)
	}
	forged, _, err := foreign.NodeUser("node_forged", "eu-west")
	if err != nil {
		t.Fatal(err)
	}
	const knocks = 100
	for range knocks {
		for what, credentials := range map[string]nats.Option{
			"none": nats.Name("stranger"), "a password": nats.UserInfo("root", "secret"), "another authority's": nats.UserCredentialBytes([]byte(forged)),
		} {
			if conn, err := nats.Connect(f.NATSURL(), credentials); err == nil {
				conn.Close()
				t.Fatalf("connected with %s", what)
			}
		}
	}
	var warnings int
	for line := range strings.Lines(f.logs.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			warnings++
		}
	}
	if warnings == 0 || warnings > 5 {
		t.Errorf("%d warnings of %d knocks:\n%s", warnings, 3*knocks, f.logs)
	}
	// Who is enrolled goes in and out as before.
	a := f.enrol("a")
	if r := ask[wire.ChangesReply](a, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != "" {
		t.Errorf("an enrolled node is told %+v", r)
	}
}

// A node that NATS lets in but SQL does not know, or knows as revoked, is not
// answered with anything.
func TestAdmission(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.enrol("a")
	authority, err := natsauth.Open(filepath.Join(f.config.Dir, "nats"))
	if err != nil {
		t.Fatal(err)
	}
	credentials, _, err := authority.NodeUser("node_unknown", "eu-west")
	if err != nil {
		t.Fatal(err)
	}
	stranger := &enrolled{fixture: f, id: "node_unknown", address: "node_unknown", credentials: credentials, errs: make(chan error, 10)}
	if stranger.conn, err = stranger.connect(); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if r := ask[wire.ChangesReply](stranger, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != wire.NotEnrolled || r.Latest != 0 {
			t.Fatalf("a stranger got %+v", r)
		}
		// Not that there is no such key, which its partner would be told.
		if r := ask[wire.KeyReply](stranger, wire.VerbKey, wire.KeyRequest{Head: head, Hash: make([]byte, 32)}); r.Failure != wire.NotEnrolled {
			t.Fatalf("a stranger got %+v", r)
		}
	}
	if n := strings.Count(f.logs.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings of a node that asks on:\n%s", n, f.logs)
	}
	f.replication.Presence().Put(store.Node{ID: a.id, RevokedAt: time.Now()})
	if r := ask[wire.ChangesReply](a, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != wire.NotEnrolled {
		t.Errorf("a revoked node got %+v", r)
	}
}
