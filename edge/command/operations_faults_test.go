package command

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/edge/addresstest"
	"partneredge/edge/adminapi"
	"partneredge/edge/release/releasetest"
	"partneredge/store/durable"
)

// startWhenSite starts a fleet whose origin has its data where the pages of OPERATIONS.md
// say, on the host "when", with a node in each of some regions. do runs the commands of a
// page on that host.
func startWhenSite(t *testing.T, regions ...string) (s *site, nodes []*regional, do func(section string, ids ...string) string) {
	t.Helper()
	return startSiteOn(t, "when", nil, regions...)
}

// startSiteOn does so on another host, with further flags of the origin.
func startSiteOn(t *testing.T, host string, originArgs []string, regions ...string) (s *site, nodes []*regional, do func(section string, ids ...string) string) {
	t.Helper()
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	h.machine(host)
	s = &site{
		t: t, program: testFiles.program(t), dir: t.TempDir(), originDir: h.path(host, "var/lib/edge-origin"), natsListen: addresstest.Fixed(t), originArgs: originArgs,
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
		credentials: filepath.Join(s.originDir, "../../../../eu2/etc/edge/node.creds"),
	}
	replacement.start()
	await(t, "the node in its place to serve", func() bool { return replacement.get(key) == http.StatusOK })
	await(t, "the origin to hear the node in its place", func() bool { n := read()["eu"]; return n.Connected && n.ID != id })
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
// they tell how much it was used, and end it at every node, and the subscription made with it.
func TestWhenAKeyIsLeaked(t *testing.T) {
	t.Parallel()
	s, nodes, do := startWhenSite(t, "eu", "us")
	leaked, other, rotated := s.key(), s.key(), s.key()
	used := time.Now().UTC()
	for _, n := range nodes {
		await(t, "the keys to be known", func() bool {
			return n.get(leaked.Plaintext) == http.StatusOK && n.get(other.Plaintext) == http.StatusOK
		})
	}
	stolen := nodes[0].accepted(leaked.Plaintext, 1)
	s.arrived(stolen)
	body := subscribed(t, nodes[0].ready.BaseURL, leaked.Plaintext, `{"target_url":"https://1.1.1.1/thief","events":["sentinel.fired"]}`)
	var thief struct {
		Subscription adminapi.Webhook `json:"subscription"`
	}
	if err := json.Unmarshal(body, &thief); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	await(t, "the use of the key to be known", func() bool {
		var key adminapi.Key
		if err := s.admin.Call(t.Context(), "GET", "/keys/"+leaked.Key.ID, nil, &key); err != nil {
			t.Fatal(err)
		}
		return key.Usage != nil && key.Usage.Requests >= 3 && !key.Usage.LastUsedAt.IsZero()
	})
	// One that was rotated is not rotated any more.
	said := do("When a key is leaked", "rotate KEY --grace 1h", "rotate "+rotated.Key.ID+" --grace 1h", "KEY", leaked.Key.ID, "ACCOUNT", s.account, "WEBHOOK", thief.Subscription.ID)
	for _, want := range []string{leaked.Key.ID, thief.Subscription.ID + "  https://1.1.1.1/thief", "target_url  https://1.1.1.1/thief", "svc_live_", "key.rotate", "key.revoke", stolen[0]} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q: %s", want, said)
		}
	}
	var keys adminapi.List[adminapi.Key]
	if err := s.admin.Call(t.Context(), "GET", "/accounts/"+s.account+"/keys", nil, &keys); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys.Items {
		if key.RateLimit != 100_000 {
			t.Errorf("the page makes a key of %d requests a minute in place of one of 100000", key.RateLimit)
		}
	}
	days := []string{used.Format(time.DateOnly) + "  ", time.Now().UTC().Format(time.DateOnly) + "  "} // midnight may lie between
	if !strings.Contains(said, days[0]) && !strings.Contains(said, days[1]) {
		t.Errorf("the page does not say %q: %s", days, said)
	}
	for _, n := range nodes {
		await(t, "the leaked key to be refused", func() bool { return n.get(leaked.Plaintext) == http.StatusUnauthorized })
		if status := n.get(other.Plaintext); status != http.StatusOK {
			t.Errorf("another key of the partner: %d", status)
		}
	}
}

// TestWhenAReleaseIsBad has a release go through that fails some requests: the page's
// commands show it and undo it. Rolled out once more while it is asked, it goes back by
// itself, and the status has the reason.
func TestWhenAReleaseIsBad(t *testing.T) {
	t.Parallel()
	modules, _ := testFiles.get(t)
	s, _, do := startWhenSite(t)
	dir := t.TempDir()
	private, public := filepath.Join(dir, "release.key"), filepath.Join(dir, "release.pub")
	command := func(args ...string) string {
		t.Helper()
		return edge(t, append([]string{"release"}, args...)...)
	}
	command("keygen", "--no-password", "--key", private, "--pub", public)
	key := s.key().Plaintext
	var nodes []*regional
	for _, region := range []string{"eu", "us"} {
		n := enrolled(t, s.admin, filepath.Join(s.dir, region), region, s.ready.NATSURL)
		n.start("--release-keys", public)
		await(t, "the key to be known", func() bool { return n.get(key) == http.StatusOK })
		nodes = append(nodes, n)
	}
	failed := func() (times int) {
		for range 200 {
			for _, n := range nodes {
				if n.get(key) != http.StatusOK {
					times++
				}
			}
		}
		return times
	}
	bad := releasetest.Modules(t, modules, map[string][]byte{"agents.wasm": releasetest.Trap(t)})
	for version, folder := range map[string]string{"1.0.0": modules, "1.1.0": bad} {
		command("push", "--modules", folder, "--version", version, "--key", private, "--data", s.originDir)
	}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		command("rollout", version, "--stages", "100", "--pause", "0s", "--canary", "0", "--wait", "--data", s.originDir)
	}
	if failed() == 0 {
		t.Error("the bad release fails nothing")
	}
	said := do("When a release is bad")
	for _, want := range []string{"1.1.0", "done", "rolled back"} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q: %s", want, said)
		}
	}
	if times := failed(); times > 0 {
		t.Errorf("%d requests failed after the page", times)
	}

	command("rollout", "1.1.0", "--stages", "50,100", "--pause", "1h", "--canary", "0", "--data", s.originDir)
	await(t, "the rollout to go back by itself", func() bool {
		failed()
		return strings.Contains(command("status", "--data", s.originDir), "rolled back")
	})
	if said := command("status", "--data", s.originDir); !strings.Contains(said, "failed calls: ") || !strings.Contains(said, "against 0 of ") {
		t.Errorf("the status has no reason: %s", said)
	}
	if times := failed(); times > 0 {
		t.Errorf("%d requests failed after the rollout went back", times)
	}
}

// TestWhenADeliveryIsDead has an endpoint refuse until deliveries are dead: the page finds
// one by the id that the partner quotes, shows what was answered, and has it and the
// others of its subscription delivered once the endpoint is mended.
func TestWhenADeliveryIsDead(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	h.machine("when")
	data := h.path("when", "var/lib/edge-origin")
	endpoint := newSometimes(t)
	d := startDevForTest(t, data, func(c *devConfig) {
		c.webhookAllow = prefixes{netip.MustParsePrefix("127.0.0.0/8")}
		c.webhookCA, c.schedule = endpoint.ca, []time.Duration{10 * time.Millisecond}
	})
	ready := d.ready()
	if err := durable.WriteJSON(filepath.Join(data, "dev.json"), ready); err != nil { // by which commands find it
		t.Fatal(err)
	}
	admin, err := localClient(data)
	if err != nil {
		t.Fatal(err)
	}
	subscribed(t, ready.Nodes[0].BaseURL, ready.Keys.Live, `{"target_url":"`+endpoint.url+`","events":["client.contacted"]}`)
	var dead []adminapi.Delivery
	for _, client := range []string{"client 1", "client 2"} {
		var contact adminapi.Contact
		if err := admin.Call(t.Context(), "POST", "/accounts/"+ready.AccountID+"/contacts", adminapi.NewContact{ClientID: &client, Channel: new("sms")}, &contact); err != nil {
			t.Fatal(err)
		}
		var of adminapi.List[adminapi.Delivery]
		await(t, "the delivery to be dead", func() bool {
			err := admin.Call(t.Context(), "GET", "/events/"+contact.EventID+"/deliveries", nil, &of)
			return err == nil && len(of.Items) == 1 && of.Items[0].State == "dead"
		})
		dead = append(dead, of.Items[0])
	}
	if tries := len(dead[0].Tries); tries != 2 {
		t.Errorf("it is dead after %d tries", tries)
	}
	endpoint.up.Store(true)
	ids := strings.NewReplacer("TRY", dead[0].Tries[0].ID, "EVENT", dead[0].EventID, "ACCOUNT", ready.AccountID, "WEBHOOK", dead[0].SubscriptionID)
	said := ""
	for _, b := range operationsBlocks(t, "When a partner asks for a delivery") {
		b.text = ids.Replace(b.text)
		said += h.do(b)
	}
	for _, want := range []string{"<- this", "not now", "503", "dead", dead[0].EventID, dead[1].EventID} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q: %s", want, said)
		}
	}
	for _, one := range dead {
		await(t, "the event to be delivered", func() bool { return endpoint.took(one.EventID) })
	}
}

// TestWhenOneAsksToBeForgotten has a partner whose keys nodes serve, and whose leads nodes
// still keep, go by the page. An origin that is put back to before knows the partner again
// until the tombstones are applied; the leads that nodes then offer it stay away.
func TestWhenOneAsksToBeForgotten(t *testing.T) {
	t.Parallel()
	s, nodes, do := startSiteOn(t, "asked", nil, "eu", "us")
	key := s.key().Plaintext
	var sent []string
	for _, n := range nodes {
		await(t, "the key to be known", func() bool { return n.get(key) == http.StatusOK })
		sent = append(sent, n.accepted(key, 2)...)
	}
	s.arrived(sent)
	before := filepath.Join(t.TempDir(), "before")
	edge(t, "backup", "--data", s.originDir, "--to", before)
	said := do("When somebody asks for their data, or to be forgotten", "ACCOUNT", s.account, "LEAD", sent[0])
	for _, want := range []string{"exported", sent[0], "deleted", "applied"} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q: %s", want, said)
		}
	}
	backups := filepath.Join(s.originDir, "../../../var/backups")
	exported, err := os.ReadFile(filepath.Join(backups, "partner.jsonl"))
	if err != nil || !strings.Contains(string(exported), sent[3]) {
		t.Errorf("the export has not lead %s: %v", sent[3], err)
	}
	gone := func(when string) {
		t.Helper()
		for _, path := range []string{"/accounts/" + s.account, "/accounts/" + s.account + "/leads"} {
			var refused *adminapi.Error
			if err := s.admin.Call(t.Context(), "GET", path, nil, nil); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
				t.Errorf("%s, %s: %v", when, path, err)
			}
		}
		for _, n := range nodes {
			await(t, when+", the partner's key to be refused", func() bool { return n.get(key) == http.StatusUnauthorized })
		}
	}
	gone("after the page")

	s.origin.terminate()
	if err := os.Rename(s.originDir, s.originDir+".lost"); err != nil {
		t.Fatal(err)
	}
	edge(t, "restore", "--from", before, "--data", s.originDir)
	s.startOrigin()
	if err := s.admin.Call(t.Context(), "GET", "/accounts/"+s.account, nil, nil); err != nil {
		t.Errorf("the earlier backup does not have the account: %v", err)
	}
	edge(t, "tombstone", "apply", filepath.Join(backups, "tombstones.json"), "--data", s.originDir)
	for _, n := range nodes {
		await(t, "the node to be back", func() bool { return n.metric("edge_origin_connected") == 1 })
		await(t, "the node to have offered all leads", func() bool { return n.metric("edge_outbox_leads") == 0 })
	}
	gone("after the restore")
}
