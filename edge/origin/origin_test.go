package origin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/certificate/certificatetest"
	"partneredge/edge/origin/natsauth"
	"partneredge/edge/wan"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest"
)

func TestStopAndStartAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.account("live")
	node := f.enrol("n1")
	admin := strings.TrimPrefix(f.AdminURL(), "http://")
	var both sync.WaitGroup
	for range 2 {
		both.Go(f.stop)
	}
	both.Wait()
	f.stop()
	if _, err := net.Dial("tcp", admin); err == nil {
		t.Error("the admin listener is still there")
	}
	if _, err := node.connect(nats.MaxReconnects(0)); err == nil {
		t.Error("NATS is still there")
	}

	f.start()
	if f.must(200, "GET", accounts+"/"+id, nil)["id"] != id {
		t.Error("the account is gone")
	}
	conn, err := node.connect()
	if err != nil {
		t.Fatalf("credentials from before the restart: %v", err)
	}
	node.conn = conn
	if r := ask[wire.ChangesReply](node, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != "" {
		t.Errorf("after the restart: %+v", r)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, change := range map[string]func(*Config){
		"no directory":          func(c *Config) { c.Dir = "" },
		"no database":           func(c *Config) { c.DB = nil },
		"no guard":              func(c *Config) { c.Guard = nil },
		"admin address taken":   func(c *Config) { c.AdminAddr = taken.Addr().String() },
		"NATS address taken":    func(c *Config) { c.NATSListen = taken.Addr().String() },
		"NATS address nonsense": func(c *Config) { c.NATSListen = "nowhere" },
		"no certificate":        func(c *Config) { c.NATSCert = "/none" },
		"no cluster":            func(c *Config) { c.NATSURL = "nats://" + taken.Addr().String() },
		"keys damaged": func(c *Config) {
			c.Dir = t.TempDir()
			if err := os.MkdirAll(filepath.Join(c.Dir, "nats"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(c.Dir, "nats", "operator.seed"), []byte("SO"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := f.config
			c.Dir = t.TempDir()
			change(&c)
			if o, err := Start(t.Context(), c); err == nil {
				_ = o.Stop(t.Context())
				t.Error("it started")
			}
		})
	}
}

func TestKeysOnDisk(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, file := range []string{"operator.seed", "account.seed", "system.seed"} {
		info, err := os.Stat(filepath.Join(f.config.Dir, "nats", file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, info, err)
		}
	}
}

// No secret may reach the log, whatever happens.
func TestLogsHoldNoSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	keyID, plaintext := f.key(account, "live")
	rotated := f.must(201, "POST", "/admin/v1/keys/"+keyID+"/rotate", nil)["plaintext"].(string)
	node := f.enrol("n1")
	secret := strings.Repeat("5ec0", 16)
	subscription := store.Subscription{
		ID: "whs_1", AccountID: account, KeyID: keyID, Environment: store.Live, TargetURL: "https://partner.example/",
		Events: []string{store.EventSentinelFired}, Secret: secret, CreatedAt: time.Now().UTC(),
	}
	ask[wire.SubscribeReply](node, wire.VerbSubscribe, wire.SubscribeRequest{Head: head, KeyHash: f.hash(keyID), Subscription: subscription})
	subscription.TargetURL = "https://elsewhere.example/"
	ask[wire.SubscribeReply](node, wire.VerbSubscribe, wire.SubscribeRequest{Head: head, KeyHash: f.hash(keyID), Subscription: subscription})
	ask[wire.LeadsReply](node, wire.VerbLeads, object{"v": 1, "leads": []object{{"id": "lead_1", "email": "lena.private@example.com", "rate": 1, "created_at": "lena.private"}}})
	ask[wire.LeadsReply](node, wire.VerbLeads, f.leadsRequest(store.Lead{ID: "lead_2", AccountID: "acc_none", Environment: store.Live, Email: "lena.private@example.com"}))
	f.send("GET", accounts, nil, "Bearer wrong-token-of-someone")
	f.send("POST", accounts, `{"name":"lena.private"`, "Bearer "+f.Token())
	if _, err := nats.Connect(f.NATSURL(), nats.Token("stolen-nats-token")); err == nil {
		t.Error("connected with a token")
	}
	f.must(200, "POST", "/admin/v1/nodes/"+node.id+"/revoke", nil)
	_, _ = node.connect(nats.MaxReconnects(0))
	f.stop()

	seeds := regexp.MustCompile(`S[UAO][A-Z2-7]{56}|eyJ[A-Za-z0-9_-]{20,}`)
	logs := f.logs.String()
	if !strings.Contains(logs, "origin is up") {
		t.Fatal("nothing was logged")
	}
	for _, secret := range []string{plaintext, rotated, secret, f.Token(), "lena.private", "wrong-token-of-someone", "stolen-nats-token"} {
		if strings.Contains(logs, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	if found := seeds.FindString(logs); found != "" {
		t.Errorf("the log holds a seed or a JWT: %.20s…", found)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificatetest.Write(t, t.TempDir())
	f := newFixture(t, func(c *Config) { c.NATSCert, c.NATSKey = cert, key })
	if !strings.HasPrefix(f.NATSURL(), "tls://127.0.0.1:") {
		t.Errorf("NATS is at %s", f.NATSURL())
	}
	v := f.must(201, "POST", "/admin/v1/nodes", object{"name": "n", "region": "r"})
	node := &enrolled{fixture: f, id: v["node"].(object)["id"].(string), address: v["node"].(object)["id"].(string), credentials: v["credentials"].(string), errs: make(chan error, 10)}
	var err error
	if node.conn, err = node.connect(nats.RootCAs(cert)); err != nil {
		t.Fatal(err)
	}
	if r := ask[wire.ChangesReply](node, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != "" {
		t.Errorf("over TLS: %+v", r)
	}
	if _, err := node.connect(nats.MaxReconnects(0)); err == nil {
		t.Error("connected without trusting the certificate")
	}
	if _, err := nats.Connect(strings.Replace(f.NATSURL(), "tls:", "nats:", 1), nats.UserCredentialBytes([]byte(node.credentials))); err == nil {
		t.Error("connected without TLS")
	}
}

// TestCertificatesAreReplaced: at the admin API and at the embedded NATS, while
// the origin runs.
func TestCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	cert, key := certificatetest.Write(t, t.TempDir())
	var passed atomic.Int64
	f := newFixture(t, func(c *Config) {
		c.NATSCert, c.NATSKey, c.AdminCert, c.AdminKey = cert, key, cert, key
		c.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	})
	admin, ok := strings.CutPrefix(f.AdminURL(), "https://")
	if !ok {
		t.Fatalf("the admin API is at %s", f.AdminURL())
	}
	authority, err := natsauth.Open(filepath.Join(f.config.Dir, "nats"))
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := authority.OriginUser()
	if err != nil {
		t.Fatal(err)
	}
	answers := func(what, ca string, want bool) {
		t.Helper()
		client := http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: certificatetest.Roots(t, ca)}, DisableKeepAlives: true,
		}}
		resp, err := client.Get("https://" + admin + "/healthz")
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: the admin API: %v, want an answer: %t", what, err, want)
		}
		conn, err := nats.Connect(f.NATSURL(), nats.UserCredentialBytes([]byte(credentials)), nats.RootCAs(ca), nats.MaxReconnects(0), nats.Timeout(time.Minute))
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: NATS: %v, want an answer: %t", what, err, want)
		}
	}
	old := filepath.Join(t.TempDir(), "old.pem")
	if err := os.Rename(cert, old); err != nil {
		t.Fatal(err)
	}
	passed.Add(int64(time.Minute))
	answers("while the file is gone", old, true)
	newCert, newKey := certificatetest.Write(t, t.TempDir())
	if err := errors.Join(os.Rename(newCert, cert), os.Rename(newKey, key)); err != nil {
		t.Fatal(err)
	}
	passed.Add(int64(time.Minute))
	answers("with the new one", cert, true)
	answers("with the old one", old, false)
}

// Two origin processes over one database and one NATS cluster: either answers,
// what one writes the other's nodes hear of, and a node that one revokes is out.
func TestTwoOriginsOverACluster(t *testing.T) {
	t.Parallel()
	first := newFixture(t) // makes the keys, and is the first of the two once restarted
	first.stop()
	cluster, url := startCluster(t, filepath.Join(first.config.Dir, "nats"))
	first.config.NATSURL = url
	first.start()
	second := &fixture{T: t, config: first.config, logs: first.logs}
	second.start()

	a, b := first.enrol("a"), second.enrol("b")
	if a.NATSURL() != url || cluster.NumClients() < 4 {
		t.Fatalf("they are at %s, with %d clients", a.NATSURL(), cluster.NumClients())
	}
	pushed := b.follow()
	account := first.account("live")
	keyID, _ := first.key(account, "live")
	second.must(200, "PATCH", accounts+"/"+account, object{"name": "Changed"})
	for found := false; !found; {
		for _, c := range next(second, pushed, "change").Changes {
			found = found || c.Kind == store.ChangeProfile && c.Ref == account
		}
	}
	for range 20 {
		if r := ask[wire.ViewReply](a, wire.VerbView, wire.ViewRequest{Head: head, AccountID: account, KeyHash: first.hash(keyID), Kind: store.ChangeProfile}); r.Account == nil || r.Account.Name != "Changed" {
			t.Fatalf("got %+v", r)
		}
	}

	closed := make(chan struct{})
	a.conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
	second.must(200, "POST", "/admin/v1/nodes/"+a.id+"/revoke", nil)
	next(first, closed, "end of the connection")
	second.stop()
	if r := ask[wire.ChangesReply](b, wire.VerbChanges, wire.ChangesRequest{Head: head}); r.Failure != "" {
		t.Errorf("with one origin gone: %+v", r)
	}
}

// TestOriginWithoutItsDatabase: an origin whose database is away leaves the nodes' requests to
// another, and answers them again when it is back.
func TestOriginWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	database := centraltest.Postgres(t)
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	relay, err := wan.Start(t.Context(), wan.Config{Target: at.Host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Stop)
	at.Host = relay.Addr()
	open := func(database string) func(*Config) {
		return func(c *Config) {
			var err error
			if c.DB, err = central.Open(t.Context(), central.Config{URL: database, Log: c.Log}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.DB.Close() }) // whose connections may be cut
		}
	}
	first := newFixture(t, open(database)) // makes the keys, and is the first of the two once restarted
	first.stop()
	_, first.config.NATSURL = startCluster(t, filepath.Join(first.config.Dir, "nats"))
	first.start()
	second := &fixture{T: t, config: first.config, logs: first.logs}
	open(at.String())(&second.config)
	second.start()
	node := first.enrol("a")
	asked, err := json.Marshal(wire.ChangesRequest{Head: head})
	if err != nil {
		t.Fatal(err)
	}
	answer := func() bool {
		m, err := node.conn.Request(wire.Subject(node.address, wire.VerbChanges), asked, time.Minute)
		var reply wire.ChangesReply
		return err == nil && json.Unmarshal(m.Data, &reply) == nil && reply.Failure == ""
	}
	answered := func() (n int) {
		for n < 32 && answer() {
			n++
		}
		return n
	}

	first.eventually("both to answer", func() bool { return answered() == 32 })
	for fault, begin := range map[string]func(){"refuses": relay.Cut, "says nothing": relay.Stall} {
		begin()
		first.eventually("the first alone to answer while the second's database "+fault, func() bool { return answered() == 32 })
		relay.Mend()
		first.stop()
		first.eventually("the second to answer again, whose database "+fault+" no more", func() bool { return answered() == 32 })
		first.start()
	}
}

// startCluster runs a NATS server as an operator would set it up from the files
// that an origin leaves.
func startCluster(t *testing.T, keys string) (*server.Server, string) {
	t.Helper()
	a, err := natsauth.Open(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.WriteCluster(keys, nil); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(filepath.Join(keys, natsauth.ClusterFile))
	if err != nil {
		t.Fatal(err)
	}
	// The resolver's folder is below the working directory, which other tests share.
	const resolver = `dir: "./jwt"`
	if !bytes.Contains(made, []byte(resolver)) {
		t.Fatalf("%s has no %s", natsauth.ClusterFile, resolver)
	}
	text := bytes.Replace(made, []byte(resolver), fmt.Appendf(nil, "dir: %q", t.TempDir()), 1)
	conf := filepath.Join(keys, "server.conf")
	if err := os.WriteFile(conf, append([]byte("listen: \"127.0.0.1:-1\"\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog, opts.AuthTimeout = true, true, 60 // seconds: this machine may be slow
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("NATS is not ready after a minute")
	}
	return s, s.ClientURL()
}

// TestStopWithoutNATS: an origin whose NATS servers are away waits for no answer of theirs, of
// which each would take ten seconds not to come.
func TestStopWithoutNATS(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "nats")
	cluster, natsURL := startCluster(t, keys)
	f := newFixture(t, func(c *Config) { c.NATSURL, c.NATSKeys = natsURL, keys })
	cluster.Shutdown()
	f.eventually("the connection to be lost", func() bool { return !f.broker.Ready() })
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	if err := errors.Join(f.Stop(ctx), ctx.Err()); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// A stop that may not wait cuts requests short, and ends.
func TestStopCutsShort(t *testing.T) {
	t.Parallel()
	guard := stuckGuard{make(chan struct{}), make(chan error, 1)}
	f := newFixture(t, func(c *Config) { c.Guard = guard })
	account := f.account("live")
	keyID, _ := f.key(account, "live")
	node := f.enrol("n1")
	body, _ := json.Marshal(wire.SubscribeRequest{Head: head, KeyHash: f.hash(keyID), Subscription: store.Subscription{
		ID: "whs_1", AccountID: account, KeyID: keyID, Environment: store.Live, TargetURL: "https://partner.example/",
		Events: []string{store.EventSentinelFired}, Secret: strings.Repeat("5e", 32), CreatedAt: time.Now().UTC(),
	}})
	if err := node.conn.Publish(wire.Subject(node.id, wire.VerbSubscribe), body); err != nil {
		t.Fatal(err)
	}
	next(f, guard.entered, "call of the guard")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = f.Stop(ctx)
	if err := <-guard.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended by %v", err)
	}
}

// stuckGuard waits for as long as it is let.
type stuckGuard struct {
	entered chan struct{}
	ended   chan error
}

func (g stuckGuard) Check(ctx context.Context, _ string) (string, error) {
	close(g.entered)
	<-ctx.Done()
	g.ended <- ctx.Err()
	return "", ctx.Err()
}
