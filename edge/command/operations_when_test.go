package command

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"partneredge/edge/adminapi"
	"partneredge/store/durable"
)

// TestOperationsWhen runs the commands of the pages of OPERATIONS.md that begin with
// "When", on three regions of which one node is given up.
func TestOperationsWhen(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	h.machine("when")
	data := h.path("when", "var/lib/edge-origin")
	d := startDevForTest(t, data, func(c *devConfig) {
		c.regions = names{"eu", "us", "ap"}
		c.webhookAllow = prefixes{netip.MustParsePrefix("127.0.0.0/8")}
	})
	if err := durable.WriteJSON(filepath.Join(data, "dev.json"), d.ready()); err != nil { // by which commands find it
		t.Fatal(err)
	}
	ready := d.ready()
	admin, err := localClient(data)
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path string, in, out any) {
		t.Helper()
		if err := admin.Call(t.Context(), method, path, in, out); err != nil {
			t.Fatal(err)
		}
	}
	subscribe := func(target string) {
		t.Helper()
		subscribed(t, ready.Nodes[0].BaseURL, ready.Keys.Live, `{"target_url":"https://127.0.0.1:1024/`+target+`","events":["client.contacted"]}`)
	}
	subscribe("hook")
	var contact adminapi.Contact
	call("POST", "/accounts/"+ready.AccountID+"/contacts", adminapi.NewContact{ClientID: new("client"), Channel: new("sms")}, &contact)
	var delivered adminapi.List[adminapi.Delivery]
	await(t, "a try", func() bool {
		call("GET", "/events/"+contact.EventID+"/deliveries", nil, &delivered)
		return len(delivered.Items) == 1 && len(delivered.Items[0].Tries) > 0
	})
	subscribe("thief")
	var webhooks adminapi.List[adminapi.Webhook]
	call("GET", "/accounts/"+ready.AccountID+"/webhooks", nil, &webhooks)
	stolen := webhooks.Items[0].ID
	var nodes adminapi.List[adminapi.Node]
	call("GET", "/nodes", nil, &nodes)
	var keys adminapi.List[adminapi.Key]
	call("GET", "/accounts/"+ready.AccountID+"/keys", nil, &keys)
	live := slices.IndexFunc(keys.Items, func(k adminapi.Key) bool { return k.Environment == "live" })
	ids := strings.NewReplacer("NODE", nodes.Items[0].ID, "rotate KEY --grace 1h", "rotate "+keys.Items[1-live].ID+" --grace 1h", "KEY", keys.Items[live].ID, "ACCOUNT", ready.AccountID, "EVENT", contact.EventID,
		"TRY", delivered.Items[0].Tries[0].ID, "revoke WEBHOOK", "revoke "+stolen, "WEBHOOK", delivered.Items[0].SubscriptionID)
	for section, want := range map[string]string{
		"When a node is lost": nodes.Items[0].ID, "When the origin is lost": "", "When a key expires": "",
		"When a key is leaked": stolen + "  https://127.0.0.1:1024/thief", "When a partner asks for a delivery": "<- this", "When the origin could not send": "queued",
	} {
		said := ""
		for _, b := range operationsBlocks(t, section) {
			b.text = ids.Replace(b.text)
			said += h.do(b)
		}
		if !strings.Contains(said, want) {
			t.Errorf("%s does not say %q: %s", section, want, said)
		}
	}
	var ended adminapi.Webhook
	if call("GET", "/webhooks/"+stolen, nil, &ended); ended.State != "revoked" {
		t.Errorf("the subscription of whoever had the key is %s", ended.State)
	}
}
