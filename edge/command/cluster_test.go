package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/addresstest"
	"partneredge/edge/adminapi"
	"partneredge/edge/origin/natsauth"
	"partneredge/store/central/centraltest"
)

// natsCluster are NATS servers with routes between them, each set up from the
// file that origins write.
type natsCluster struct {
	t       *testing.T
	shared  string // that file's content
	route   string // the password of routes
	dir     string // of the servers' configurations
	servers []*server.Server
	urls    []string
}

func startNATS(t *testing.T, clusterConf string, some int) *natsCluster {
	t.Helper()
	shared, err := os.ReadFile(clusterConf)
	if err != nil {
		t.Fatal(err)
	}
	route, err := os.ReadFile(filepath.Join(filepath.Dir(clusterConf), natsauth.RoutePassword))
	if err != nil {
		t.Fatal(err)
	}
	c := &natsCluster{t: t, shared: string(shared), route: strings.TrimSpace(string(route)), dir: t.TempDir()}
	for range some {
		c.servers = append(c.servers, nil)
		c.start(len(c.servers)-1, addresstest.Fixed(t))
		c.urls = append(c.urls, c.servers[len(c.servers)-1].ClientURL())
	}
	c.joined(some)
	return c
}

// joined waits until each server has a route to all others.
func (c *natsCluster) joined(all int) {
	c.t.Helper()
	await(c.t, "the NATS servers to be joined", func() bool {
		return !slices.ContainsFunc(c.servers, func(s *server.Server) bool { return s.NumRemotes() < all-1 })
	})
}

// start starts the i-th server, with routes to those that run.
func (c *natsCluster) start(i int, listen string) {
	c.t.Helper()
	var routes []string
	for _, s := range c.servers {
		if s != nil && s.Running() {
			routes = append(routes, fmt.Sprintf("nats://route:%s@%s", c.route, s.ClusterAddr()))
		}
	}
	text := strings.Replace(c.shared, "./jwt", filepath.Join(c.dir, fmt.Sprint("jwt", i)), 1) + fmt.Sprintf(`
		server_name: nats-%d
		listen: %q
		cluster: { name: edge, listen: "127.0.0.1:-1", authorization: { user: route, password: %q }, routes: [%s] }
	`, i, listen, c.route, strings.Join(routes, ", "))
	conf := filepath.Join(c.dir, fmt.Sprintf("nats-%d.conf", i))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(conf)
	if err != nil {
		c.t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog, opts.AuthTimeout = true, true, 60 // seconds: this machine may be slow
	s, err := server.NewServer(opts)
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	c.t.Cleanup(func() { stopNATS(s) })
	if !s.ReadyForConnections(5 * time.Minute) {
		c.t.Fatal("NATS is not ready")
	}
	c.servers[i] = s
}

func stopNATS(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// routeLog is told what a server logs, and keeps that a route of it was refused.
type routeLog struct{ refused *atomic.Bool }

func (routeLog) Noticef(string, ...any) {}
func (routeLog) Warnf(string, ...any)   {}
func (routeLog) Fatalf(string, ...any)  {}
func (routeLog) Debugf(string, ...any)  {}
func (routeLog) Tracef(string, ...any)  {}
func (l routeLog) Errorf(format string, v ...any) {
	if strings.Contains(fmt.Sprintf(format, v...), "Authorization Violation") {
		l.refused.Store(true)
	}
}

// hasRoute reports whether a server took in the one of this id.
func hasRoute(t *testing.T, s *server.Server, id string) bool {
	t.Helper()
	known, err := s.Routez(nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(known.Routes, func(r *server.RouteInfo) bool { return r.RemoteID == id })
}

// TestClusterTakesNoStranger: the servers that OPERATIONS sets up join each other, and no
// server that only knows where they are.
func TestClusterTakesNoStranger(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := &hosts{t: t, root: t.TempDir(), ports: map[string]string{}}
	h.machine("first")
	keys := h.path("first", "var/lib/edge-origin/nats")
	if err := os.Mkdir(filepath.Dir(keys), 0o700); err != nil {
		t.Fatal(err)
	}
	authority, err := natsauth.Open(keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.WriteCluster(keys, nil); err != nil {
		t.Fatal(err)
	}
	for _, b := range operationsBlocks(t, "Many origins") {
		if strings.HasPrefix(b.host, "nats") || strings.Contains(b.text, "nats1:") {
			h.do(b)
		}
	}
	await(t, "the servers of the page to be joined", func() bool {
		return len(h.servers) == 2 && hasRoute(t, h.servers[0], h.servers[1].ID()) && hasRoute(t, h.servers[1], h.servers[0].ID())
	})

	password, err := os.ReadFile(filepath.Join(keys, natsauth.RoutePassword))
	if err != nil {
		t.Fatal(err)
	}
	for user, takes := range map[string]bool{"": false, "route:PASSWORD@": false, "route:" + strings.TrimSpace(string(password)) + "@": true} {
		s, err := server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: -1, NoSigs: true, Cluster: server.ClusterOpts{Name: "edge", Host: "127.0.0.1", Port: -1},
			Routes: server.RoutesFromStr("nats://" + user + h.port("10.0.0.11:6222")),
		})
		if err != nil {
			t.Fatal(err)
		}
		log := routeLog{new(atomic.Bool)}
		s.SetLogger(log, false, false)
		s.Start()
		t.Cleanup(func() { stopNATS(s) })
		await(t, "the other server to be taken in or not", func() bool {
			return hasRoute(t, h.servers[0], s.ID()) || !takes && log.refused.Load()
		})
		if hasRoute(t, h.servers[0], s.ID()) != takes {
			t.Errorf("whether a server is taken in that presents %q: want %t", user, takes)
		}
	}
}

// TestManyOrigins runs two origins over one PostgreSQL and three NATS servers,
// and two nodes. An origin is killed, then a NATS server goes: requests, leads,
// revocations, limits and webhooks go on.
func TestManyOrigins(t *testing.T) {
	t.Parallel()
	hook, ca, deliveries := endpoint(t)
	dir := t.TempDir()
	keys, sealing := filepath.Join(dir, "nats"), filepath.Join(dir, "secrets.keys")
	args := func(name, natsURL string) []string {
		return []string{"origin", "--data", filepath.Join(dir, name), "--admin", "127.0.0.1:0", "--nats", natsURL,
			"--nats-keys", keys, "--secrets-file", sealing, "--webhook-allow", "127.0.0.0/8", "--webhook-ca", ca}
	}

	// The first origin has nowhere to go, and leaves what the servers need.
	conf := filepath.Join(keys, "cluster.conf")
	out, err := exec.Command(testFiles.program(t), args("none", "nats://127.0.0.1:1")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "include "+conf) {
		t.Fatalf("an origin without its cluster: %v\n%s", err, out)
	}
	cluster := startNATS(t, conf, 3)
	natsURL := strings.Join(cluster.urls, ",")
	database := centraltest.Postgres(t)
	startNamed := func(name string) (*process, *adminapi.Client) {
		var ready originReady
		p := startProgram(t, testFiles.program(t), filepath.Join(dir, name, "origin.json"), &ready, append(args(name, natsURL), "--database", database)...)
		return p, adminOf(t, filepath.Join(dir, name), ready.AdminURL)
	}
	doomed, first := startNamed("one")
	_, second := startNamed("two")
	account := makeAccount(t, first)
	held := makeKey(t, second, account, 100_000)
	var nodes []*regional
	for i, region := range []string{"eu", "us"} {
		n := enrolled(t, []*adminapi.Client{first, second}[i], filepath.Join(dir, region), region, natsURL)
		n.start()
		await(t, "the key to be known", func() bool { return n.get(held.Plaintext) == http.StatusOK })
		nodes = append(nodes, n)
	}
	body, err := json.Marshal(map[string]any{"target_url": hook + "/live", "events": []string{"sentinel.fired"}})
	if err != nil {
		t.Fatal(err)
	}
	subscribed(t, nodes[0].ready.BaseURL, held.Plaintext, string(body))

	var sent []string
	goesOn := func(what string, admin *adminapi.Client) {
		t.Helper()
		const limit = 60 // a minute: few come back while they are spent
		revoked, limited := makeKey(t, admin, account, 10_000), makeKey(t, admin, account, limit)
		for _, n := range nodes {
			await(t, what+": the node to be connected", func() bool { return n.metric("edge_origin_connected") == 1 })
			await(t, what+": a new key to be known", func() bool { return n.get(revoked.Plaintext) == http.StatusOK })
			if status := n.get(held.Plaintext); status != http.StatusOK {
				t.Errorf("%s: a held key: %d", what, status)
			}
		}
		if err := admin.Call(t.Context(), "POST", "/keys/"+revoked.Key.ID+"/revoke", nil, nil); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			await(t, what+": the key to be refused", func() bool { return n.get(revoked.Plaintext) == http.StatusUnauthorized })
			await(t, what+": the limited key to be known", func() bool { return n.get(limited.Plaintext) == http.StatusOK })
		}
		// What one node lets through, the other takes off.
		asked := 0 // of the other, which is no proof
		await(t, what+": one limit at both nodes", func() bool {
			var asking sync.WaitGroup
			for range limit {
				asking.Go(func() { nodes[0].get(limited.Plaintext) })
			}
			asking.Wait()
			asked++
			left, err := strconv.Atoi(nodes[1].answer(limited.Plaintext).Header.Get("x-ratelimit-remaining"))
			return err == nil && left+asked < limit/2
		})
		var fired struct {
			EventID string `json:"event_id"`
		}
		if err := admin.Call(t.Context(), "POST", "/accounts/"+account+"/sentinel-firings",
			map[string]any{"sentinel_name": "stale_lead", "trigger_data": map[string]int{"days": 9}, "action_taken": "task_created"}, &fired); err != nil {
			t.Fatal(err)
		}
		// An origin that died before it had noted a delivery has another repeat it.
		for receive(t, deliveries).header.Get("X-Svc-Event-Id") != fired.EventID {
		}
		await(t, what+": the leads to arrive", func() bool { return len(allLeads(t, admin, account)) >= len(sent) })
		if got := sorted(allLeads(t, admin, account)); !slices.Equal(got, sorted(sent)) {
			t.Errorf("%s: %d leads, %d were accepted", what, len(got), len(sent))
		}
	}
	// through sends leads at both nodes while fault happens.
	through := func(fault func()) {
		t.Helper()
		var sending sync.WaitGroup
		ids := make([][]string, len(nodes))
		for i, n := range nodes {
			sending.Go(func() { ids[i] = n.accepted(held.Plaintext, 50) })
		}
		fault()
		sending.Wait()
		sent = append(sent, slices.Concat(ids...)...)
	}
	through(func() {})
	goesOn("with all of them", first)
	through(doomed.kill)
	goesOn("with one origin killed", second)
	through(func() { stopNATS(cluster.servers[0]) })
	goesOn("with one NATS server gone", second)

	// A stolen credential ends everywhere at once, also at a server that was not
	// there to hear of it.
	stolen := enrolled(t, second, filepath.Join(dir, "stolen"), "eu", natsURL)
	closed := make(chan struct{})
	thief, err := nats.Connect(cluster.urls[1], nats.UserCredentials(stolen.credentials), nats.NoReconnect(), nats.Timeout(time.Minute),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	id, err := nodeNamed(t, second, "dev-eu")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Call(t.Context(), "POST", "/nodes/"+id+"/revoke", nil, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the thief's connection to end", func() bool {
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
	refused := func(url string) bool {
		conn, err := nats.Connect(url, nats.UserCredentials(stolen.credentials), nats.NoReconnect(), nats.Timeout(time.Minute))
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthRevoked)
	}
	cluster.start(0, strings.TrimPrefix(cluster.urls[0], "nats://"))
	for i, url := range cluster.urls { // servers tell each other a moment later
		await(t, fmt.Sprintf("server %d to refuse the stolen credentials", i), func() bool { return refused(url) })
	}
}

// nodeNamed is the id of the node that was enrolled last under a name.
func nodeNamed(t *testing.T, admin *adminapi.Client, name string) (string, error) {
	t.Helper()
	var page struct {
		Items []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"items"`
	}
	if err := admin.Call(t.Context(), "GET", "/nodes?limit=200", nil, &page); err != nil {
		return "", err
	}
	for _, n := range page.Items { // the newest first
		if n.Name == name {
			return n.ID, nil
		}
	}
	return "", fmt.Errorf("no node %s", name)
}
