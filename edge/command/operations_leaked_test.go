package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/adminapi"
	"partneredge/edge/dev"
	"partneredge/edge/origin/natsauth"
	"partneredge/edge/webhook/secrets"
	"partneredge/store"
	"partneredge/store/central"
)

const leakedPage = "When a secret is leaked"

// openSecret returns the newer of a subscription's two secrets, which the keys of a file's
// text must open both.
func openSecret(t *testing.T, database, text, id string) (string, error) {
	t.Helper()
	keys, err := secrets.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	db, err := central.Open(t.Context(), central.Config{URL: database, Secrets: keys})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	endpoints, err := db.Endpoints(t.Context(), []string{id})
	if err != nil {
		return "", err
	}
	if some := len(endpoints[id].Secrets); some != 2 {
		return "", fmt.Errorf("%d of its 2 secrets", some)
	}
	return endpoints[id].Secrets[0], nil
}

// resealed fails unless secrets.keys of a host is one new key, by which a subscription's
// secret is sealed. It returns the secret.
func (h *hosts) resealed(host, database, before, id string) string {
	h.t.Helper()
	text := h.read(host, "var/lib/edge-origin/secrets.keys")
	if strings.Count(text, "\n") != 1 || strings.Contains(before, text) {
		h.t.Errorf("secrets.keys on %s is not one new key", host)
	}
	secret, err := openSecret(h.t, database, text, id)
	if err != nil {
		h.t.Errorf("the secret of %s with the new key: %v", id, err)
	}
	return secret
}

// isRefused fails unless the origin on a host takes the token of its file and no other.
func (h *hosts) isRefused(host, token string) {
	h.t.Helper()
	admin, err := localClient(h.path(host, "var/lib/edge-origin"))
	if err != nil {
		h.t.Fatal(err)
	}
	if err := admin.Call(h.t.Context(), "GET", "/whoami", nil, nil); err != nil {
		h.t.Error(err)
	}
	admin.Token = token
	if err := admin.Call(h.t.Context(), "GET", "/whoami", nil, nil); err == nil {
		h.t.Errorf("the origin on %s takes the leaked token", host)
	}
}

func (h *hosts) read(host, path string) string {
	h.t.Helper()
	text, err := os.ReadFile(h.path(host, path))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// TestOperationsLeaked replaces the secrets of one origin as OPERATIONS.md says.
func TestOperationsLeaked(t *testing.T) {
	needShell(t, "OPERATIONS.md")
	h := newHosts(t)
	h.machine("leaked")
	data := h.path("leaked", "var/lib/edge-origin")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	database := filepath.Join(data, databaseFile)
	keys, err := secrets.Load(filepath.Join(data, secretsFile))
	if err != nil {
		t.Fatal(err)
	}
	db, err := central.Open(t.Context(), central.Config{URL: database, Secrets: keys})
	if err != nil {
		t.Fatal(err)
	}
	account, err := db.CreateAccount(t.Context(), store.Account{Name: "Harbor Realty", Agent: store.Agent{Email: "ana@example.com", FullName: "Ana"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.AddSubscription(t.Context(), store.Subscription{
		ID: "whs_leaked", AccountID: account.ID, KeyID: "key_1", Environment: store.Live, TargetURL: "https://partner.example/",
		Events: []string{store.EventSentinelFired}, Secret: strings.Repeat("5e", 32),
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	h.do(block{kind: "env", host: "leaked", file: "/etc/edge/origin.env", text: "EDGE_FLAGS=--admin 127.0.0.1:8090 --nats-listen 127.0.0.1:4222\n"})
	h.systemctl("leaked", "start", "edge-origin")
	node, voided := h.leakedNATSKeys()
	before, token := h.read("leaked", "var/lib/edge-origin/secrets.keys"), h.read("leaked", "var/lib/edge-origin/admin.token")
	said := ""
	for _, b := range operationsBlocks(t, leakedPage) {
		if b.host == "leaked" {
			b.text = strings.NewReplacer("WEBHOOK", "whs_leaked", "NODE", node).Replace(b.text)
			said += h.do(b)
		}
	}
	h.connected("leaked", "local")
	voided()
	if secret := h.resealed("leaked", database, before, "whs_leaked"); !strings.Contains(said, secret+"\n") {
		t.Errorf("the new secret is not printed: %s", said)
	}
	h.isRefused("leaked", token)
}

// leakedNATSKeys starts a node on the host "leaked" and returns its id. voided fails unless
// the origin there has ended that enrolment, and refuses credentials of the node and of an
// origin that were signed with the keys that it has now.
func (h *hosts) leakedNATSKeys() (node string, voided func()) {
	h.t.Helper()
	h.do(block{kind: "sh", host: "leaked", text: "edge node enrol --name local --region local --out /etc/edge/node.creds --data /var/lib/edge-origin\n"})
	h.do(block{kind: "env", host: "leaked", file: "/etc/edge/node.env", text: "EDGE_FLAGS=--region local --origin nats://127.0.0.1:4222 --listen 127.0.0.1:8080\n"})
	h.systemctl("leaked", "start", "edge-node")
	h.connected("leaked", "local")
	admin, err := localClient(h.path("leaked", "var/lib/edge-origin"))
	if err != nil {
		h.t.Fatal(err)
	}
	var page adminapi.List[adminapi.Node]
	if err := admin.Call(h.t.Context(), "GET", "/nodes", nil, &page); err != nil || len(page.Items) != 1 {
		h.t.Fatalf("nodes: %+v, %v", page.Items, err)
	}
	node = page.Items[0].ID
	stolen, err := natsauth.Open(h.path("leaked", "var/lib/edge-origin/nats"))
	if err != nil {
		h.t.Fatal(err)
	}
	ofOrigin, err := stolen.OriginUser()
	if err != nil {
		h.t.Fatal(err)
	}
	ofNode := h.read("leaked", "etc/edge/node.creds")
	return node, func() {
		h.t.Helper()
		for who, credentials := range map[string]string{"an origin": ofOrigin, "the node": ofNode} {
			conn, err := nats.Connect("nats://"+h.port("leaked:4222"), nats.UserCredentialBytes([]byte(credentials)), nats.Timeout(time.Minute))
			if !errors.Is(err, nats.ErrAuthorization) {
				h.t.Errorf("with the leaked keys %s is answered %v", who, err)
			}
			if err == nil {
				conn.Close()
			}
		}
		if admin, err = localClient(h.path("leaked", "var/lib/edge-origin")); err != nil { // the token is another
			h.t.Fatal(err)
		}
		if err := admin.Call(h.t.Context(), "GET", "/nodes", nil, &page); err != nil {
			h.t.Fatal(err)
		}
		for _, n := range page.Items {
			if n.RevokedAt.IsZero() == (n.ID == node) {
				h.t.Errorf("node %s was revoked at %v", n.ID, n.RevokedAt)
			}
		}
	}
}

// rotateSecrets replaces the secrets of many origins as OPERATIONS.md says, and holds that
// at each step every one opens what any of them has sealed.
func (h *hosts) rotateSecrets(node string, account dev.Account) {
	h.t.Helper()
	known(h.t, node, account.Keys.Test)
	subscribed(h.t, node, account.Keys.Test, `{"target_url":"https://1.1.1.1/hook","events":["sentinel.fired"]}`)
	first, err := localClient(h.path("first", "var/lib/edge-origin"))
	if err != nil {
		h.t.Fatal(err)
	}
	var page adminapi.List[adminapi.Webhook]
	if err := first.Call(h.t.Context(), "GET", "/accounts/"+account.AccountID+"/webhooks", nil, &page); err != nil || len(page.Items) != 1 {
		h.t.Fatal(page, err)
	}
	before, token := h.read("first", "var/lib/edge-origin/secrets.keys"), h.read("first", "var/lib/edge-origin/admin.token")
	loaded := map[string]string{"first": before, "second": before} // what each was started with
	for _, b := range operationsBlocks(h.t, leakedPage) {
		if b.host == "leaked" {
			continue
		}
		h.do(b)
		if strings.Contains(b.text, "systemctl restart") {
			loaded[b.host] = h.read(b.host, "var/lib/edge-origin/secrets.keys")
		}
		for sealing := range loaded {
			admin, err := localClient(h.path(sealing, "var/lib/edge-origin"))
			if err != nil {
				h.t.Fatal(err)
			}
			admin.Token = token
			var refused *adminapi.Error
			rotate := "/webhooks/" + page.Items[0].ID + "/rotate-secret"
			err = admin.Call(h.t.Context(), "POST", rotate, adminapi.SecretRotation{OverlapSeconds: new(int64)}, nil) // ends the overlap of the last
			if errors.As(err, &refused) && refused.Status == 401 {
				continue // it has the next token
			}
			if err := errors.Join(err, admin.Call(h.t.Context(), "POST", rotate, nil, nil)); err != nil {
				h.t.Fatal(err)
			}
			for opening, keys := range loaded {
				if _, err := openSecret(h.t, h.database, keys, page.Items[0].ID); err != nil {
					h.t.Errorf("%s cannot open what %s has sealed, after\n%s%v", opening, sealing, b.text, err)
				}
			}
		}
	}
	for _, host := range []string{"first", "second"} {
		h.resealed(host, h.database, before, page.Items[0].ID)
		h.isRefused(host, token)
	}
}
