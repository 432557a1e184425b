package command

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
)

// startWhenSite starts a fleet whose origin has its data where the pages of OPERATIONS.md
// say, on the host "when", with a node in each of some regions. do runs the commands of a
// page on that host.
func startWhenSite(t *testing.T, regions ...string) (s *site, nodes []*regional, do func(section string, ids ...string) string) {
	t.Helper()
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	h.machine("when")
	s = &site{
		t: t, program: testFiles.program(t), dir: t.TempDir(), originDir: h.path("when", "var/lib/edge-origin"), natsListen: fixedAddress(t),
	}
	s.startOrigin()
	s.account = makeAccount(t, s.admin)
	for _, region := range regions {
		nodes = append(nodes, s.node(region))
	}
	return s, nodes, func(section string, ids ...string) (said string) {
		t.Helper()
		blocks := operationsBlocks(t, section)
		if len(blocks) == 0 {
			t.Fatalf("%s has no commands", section)
		}
		for _, b := range blocks {
			b.text = strings.NewReplacer(ids...).Replace(b.text)
			said += h.do(b)
		}
		return said
	}
}

// TestWhenANodeIsLost kills a node of three and goes through the page: the others serve,
// the lost one shows and is revoked, and one that is enrolled in its place serves.
func TestWhenANodeIsLost(t *testing.T) {
	t.Parallel()
	s, nodes, do := startWhenSite(t, "eu", "us", "ap")
	key := s.key().Plaintext
	for _, n := range nodes {
		await(t, "the key to be known", func() bool { return n.get(key) == http.StatusOK })
	}
	lost := nodes[0]
	var list adminapi.List[adminapi.Node]
	read := func() map[string]adminapi.Node {
		t.Helper()
		if err := s.admin.Call(t.Context(), "GET", "/nodes", nil, &list); err != nil {
			t.Fatal(err)
		}
		byRegion := make(map[string]adminapi.Node)
		for _, n := range list.Items {
			if n.Region != "eu" || byRegion["eu"].ID == "" || n.RevokedAt.IsZero() {
				byRegion[n.Region] = n
			}
		}
		return byRegion
	}
	id := read()["eu"].ID
	lost.kill()
	await(t, "the origin to miss the node", func() bool { return !read()["eu"].Connected })
	for _, n := range nodes[1:] {
		if status := n.get(key); status != http.StatusOK {
			t.Errorf("the node of %s answers %d", n.region, status)
		}
	}
	said := do("When a node is lost", "NODE", id)
	if !strings.Contains(said, "away") || strings.Count(said, " up ") < 2 || !strings.Contains(said, id) {
		t.Errorf("the page says %s", said)
	}
	replacement := &regional{
		t: t, program: s.program, dir: filepath.Join(s.dir, "eu-2", "data"), region: "eu", origin: s.ready.NATSURL,
		credentials: filepath.Join(s.originDir, "../../../etc/edge/node.creds"),
	}
	replacement.start()
	await(t, "the node in its place to serve", func() bool { return replacement.get(key) == http.StatusOK })
	if n := read()["eu"]; !n.Connected || n.ID == id {
		t.Errorf("in its place is %+v", n)
	}
	for _, n := range list.Items {
		if n.RevokedAt.IsZero() == (n.ID == id) {
			t.Errorf("after the page, node %s was revoked at %v", n.ID, n.RevokedAt)
		}
	}
}

// TestWhenTheOriginIsLost kills the origin: nodes serve the keys that they hold and keep
// leads, answer 500 for what they would have to ask, and go on by themselves once it is
// started again.
func TestWhenTheOriginIsLost(t *testing.T) {
	t.Parallel()
	s, nodes, do := startWhenSite(t, "eu", "us")
	held, unknown := s.key().Plaintext, s.key().Plaintext
	for _, n := range nodes {
		await(t, "the key to be known", func() bool { return n.get(held) == http.StatusOK })
	}
	s.origin.kill()
	var sent []string
	for _, n := range nodes {
		await(t, "the node to notice", func() bool { return n.metric("edge_origin_connected") == 0 })
		if status := n.get(held); status != http.StatusOK {
			t.Errorf("a key that is held: %d", status)
		}
		if status := n.get(unknown); status != http.StatusInternalServerError {
			t.Errorf("a key that is not held: %d", status)
		}
		sent = append(sent, n.accepted(held, 3)...)
	}
	for _, n := range nodes {
		if waiting := n.metric("edge_outbox_leads"); waiting != 3 {
			t.Errorf("%v leads wait at the node of %s", waiting, n.region)
		}
	}
	s.startOrigin()
	s.arrived(sent)
	for _, n := range nodes {
		await(t, "the other key to be known", func() bool { return n.get(unknown) == http.StatusOK })
	}
	await(t, "the origin to hear each node", func() bool {
		var list adminapi.List[adminapi.Node]
		if err := s.admin.Call(t.Context(), "GET", "/nodes", nil, &list); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(list.Items, func(n adminapi.Node) bool { return !n.Connected })
	})
	if said := do("When the origin is lost"); strings.Count(said, " up ") != len(nodes) {
		t.Errorf("the page says %s", said)
	}
}

// TestWhenAKeyIsLeaked has a stranger use a key until the page's commands have been run:
// they tell how much it was used, and end it at every node.
func TestWhenAKeyIsLeaked(t *testing.T) {
	t.Parallel()
	s, nodes, do := startWhenSite(t, "eu", "us")
	leaked, other := s.key(), s.key()
	for _, n := range nodes {
		await(t, "the keys to be known", func() bool {
			return n.get(leaked.Plaintext) == http.StatusOK && n.get(other.Plaintext) == http.StatusOK
		})
	}
	stolen := nodes[0].accepted(leaked.Plaintext, 1)
	s.arrived(stolen)
	await(t, "the use of the key to be known", func() bool {
		var key adminapi.Key
		if err := s.admin.Call(t.Context(), "GET", "/keys/"+leaked.Key.ID, nil, &key); err != nil {
			t.Fatal(err)
		}
		return key.Usage != nil && key.Usage.Requests >= 3 && !key.Usage.LastUsedAt.IsZero()
	})
	said := do("When a key is leaked", "KEY", leaked.Key.ID, "ACCOUNT", s.account)
	for _, want := range []string{leaked.Key.ID, "svc_live_", "key.rotate", "key.revoke", stolen[0], time.Now().UTC().Format(time.DateOnly) + "  "} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q: %s", want, said)
		}
	}
	for _, n := range nodes {
		await(t, "the leaked key to be refused", func() bool { return n.get(leaked.Plaintext) == http.StatusUnauthorized })
		if status := n.get(other.Plaintext); status != http.StatusOK {
			t.Errorf("another key of the partner: %d", status)
		}
	}
}
