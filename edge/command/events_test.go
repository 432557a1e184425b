package command

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/webhook/signature"
	"partneredge/store/logtest"
	"partneredge/wasm/contract"
)

// delivery holds one delivery as an endpoint received it.
type delivery struct {
	at       time.Time
	endpoint string
	header   http.Header
	body     []byte
}

// endpoint takes deliveries over TLS on loopback and answers 200.
func endpoint(t *testing.T) (url, ca string, got <-chan delivery) {
	t.Helper()
	all := make(chan delivery, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the sender will come again
		}
		all <- delivery{time.Now(), r.URL.Path, r.Header, body}
	}))
	t.Cleanup(server.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, ca, all
}

// TestEvents follows each type of event from the admin API to an endpoint, and
// holds what arrives against the contract and the OpenAPI document.
func TestEvents(t *testing.T) {
	url, ca, deliveries := endpoint(t)
	log := new(logtest.Buffer)
	d := startDevForTest(t, t.TempDir(), func(c *devConfig) {
		c.webhookAllow = prefixes{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
		c.webhookCA = ca
		c.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	fixture := newAdminFixture(d)
	account := fixture.Account(t, contract.Account{Name: "Quiet at first", Email: "eva@example.com", Agent: "Eva Event"})
	types := slices.Sorted(maps.Keys(eventData))
	live := subscribeFor(t, fixture, account, "live", url+"/live", types)
	subscribeFor(t, fixture, account, "test", url+"/test", types)
	subscribeFor(t, fixture, account, "live", url+"/one", types[:1])

	feed := func(changed int) (ids map[string]string) {
		ids = map[string]string{}
		post := func(event, method, path string, in any) {
			var out struct {
				EventID string `json:"event_id"`
			}
			fixture.call(t, method, "/accounts/"+account+path, in, &out)
			if event != "" {
				ids[event] = out.EventID
			} else if out.EventID != "" {
				t.Errorf("%s %s emitted %s", method, path, out.EventID)
			}
		}
		stage, pace := []string{"offer", "closed"}[changed], []string{"ahead", "behind"}[changed]
		if changed == 0 { // the first value emits nothing
			post("", "PUT", "/deals/deal-1", map[string]string{"stage": "lead"})
			post("", "PUT", "/goals/goal-1", map[string]string{"pace": "on_pace"})
		}
		post("deal.stage_changed", "PUT", "/deals/deal-1", map[string]string{"stage": stage})
		post("", "PUT", "/deals/deal-1", map[string]string{"stage": stage}) // the same again: nothing
		post("goal.pace_changed", "PUT", "/goals/goal-1", map[string]string{"pace": pace})
		post("", "PUT", "/goals/goal-1", map[string]string{"pace": pace})
		post("client.contacted", "POST", "/contacts", map[string]string{"client_id": "client-7", "channel": "phone"})
		post("sentinel.fired", "POST", "/sentinel-firings", map[string]any{
			"sentinel_name": "stale_lead", "trigger_data": map[string]int{"days": 9}, "action_taken": "task_created"})
		post("agent.coaching_insight_created", "POST", "/coaching-runs", map[string]any{"insights": []map[string]string{
			{"headline": "Older", "detail": "d", "created_at": "2026-01-01T00:00:00Z"},
			{"headline": "Newest", "detail": "d", "created_at": "2026-01-02T00:00:00Z"},
		}})
		return ids
	}
	feed(0) // while the account is in setup: silenced, also later
	fixture.call(t, "PATCH", "/accounts/"+account, map[string]string{"activation_mode": "live"}, nil)
	want := feed(1)

	check := newConformance(t)
	byType := map[string]delivery{}
	ones := 0
	for len(byType) < len(types) || ones < 1 {
		got := receive(t, deliveries)
		var envelope struct{ ID, Type string }
		if err := json.Unmarshal(got.body, &envelope); err != nil {
			t.Fatal(err)
		}
		if envelope.ID != want[envelope.Type] {
			t.Fatalf("delivered %s of type %s, want %s", envelope.ID, envelope.Type, want[envelope.Type])
		}
		switch got.endpoint {
		case "/live":
			byType[envelope.Type] = got
		case "/one":
			ones++
		default:
			t.Fatalf("a delivery to %s", got.endpoint)
		}
	}
	for name, got := range byType {
		t.Run(name, func(t *testing.T) { checkDelivery(t, check, name, got, live.secret, account) })
	}
	await(t, "an outcome of every delivery", func() bool {
		states := deliveryStates(t, fixture, account)
		if len(states) > len(byType)+ones {
			t.Fatalf("%d deliveries were made, %d arrived: %v", len(states), len(byType)+ones, states)
		}
		return !slices.ContainsFunc(states, func(state string) bool { return state != "delivered" })
	})

	secrets := newSecrets(d)
	secrets.add(fixture.plaintexts()...)
	secrets.add(live.secret, "client-7 phone", "Newest headline")
	for secret := range secrets.all {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds a secret: %q", secret)
		}
	}
}

// deliveryStates lists the states of every delivery to an account's subscriptions.
func deliveryStates(t *testing.T, f *adminFixture, account string) (states []string) {
	t.Helper()
	for _, s := range f.Subscriptions(t, account) {
		var page struct {
			Items []adminapi.Delivery `json:"items"`
		}
		f.call(t, "GET", "/webhooks/"+s.ID+"/deliveries?limit=200", nil, &page)
		for _, d := range page.Items {
			states = append(states, d.State)
		}
	}
	return states
}

// eventData gives the fields of each event type's data as patterns, ordered by name.
var eventData = map[string]map[string]string{
	"agent.coaching_insight_created": {"insight_id": "^ins_", "headline": "^Newest$", "created_at": "^2026-01-02T00:00:00"},
	"sentinel.fired":                 {"firing_id": "^fir_", "sentinel_name": "^stale_lead$", "triggered_at": "Z$", "action_taken": "^task_created$"},
	"deal.stage_changed":             {"deal_id": "^deal-1$", "from_stage": "^offer$", "to_stage": "^closed$", "changed_at": "Z$"},
	"client.contacted":               {"contact_id": "^con_", "client_id": "^client-7$", "channel": "^phone$", "occurred_at": "Z$"},
	"goal.pace_changed":              {"goal_id": "^goal-1$", "pace": "^behind$", "previous_pace": "^ahead$", "changed_at": "Z$"},
}

func checkDelivery(t *testing.T, c *conformance, name string, got delivery, secret, account string) {
	t.Helper()
	sent := httptest.NewRequestWithContext(t.Context(), http.MethodPost, got.endpoint, nil)
	sent.Header = got.header
	if err := c.document.Events[name].CheckRequest(sent, got.body); err != nil {
		t.Errorf("not what the document draws: %v\n%s", err, got.body)
	}
	var envelope struct {
		ID        string            `json:"id"`
		AccountID string            `json:"account_id"`
		Data      map[string]string `json:"data"`
	}
	if err := json.Unmarshal(got.body, &envelope); err != nil {
		t.Fatal(err)
	}
	if envelope.AccountID != account {
		t.Errorf("account %s, want %s", envelope.AccountID, account)
	}
	for field, pattern := range eventData[name] {
		if !regexp.MustCompile(pattern).MatchString(envelope.Data[field]) {
			t.Errorf("%s is %q, want %s", field, envelope.Data[field], pattern)
		}
	}
	header := got.header.Get("X-Svc-Signature")
	if err := signature.Verify(header, got.body, signature.DefaultTolerance, got.at, secret); err != nil {
		t.Error(err)
	}
	stamp := regexp.MustCompile(`^t=(\d+),v1=[0-9a-f]{64}$`).FindStringSubmatch(header)
	if stamp == nil || got.header.Get("X-Svc-Timestamp") != stamp[1] {
		t.Errorf("signature %q with timestamp %q", header, got.header.Get("X-Svc-Timestamp"))
	}
	for name, pattern := range map[string]string{
		"X-Svc-Event": "^" + regexp.QuoteMeta(name) + "$", "X-Svc-Event-Id": "^" + envelope.ID + "$",
		"X-Svc-Delivery-Id": "^dlv_", "Content-Type": "^application/json",
	} {
		if !regexp.MustCompile(pattern).MatchString(got.header.Get(name)) {
			t.Errorf("%s: %q, want %s", name, got.header.Get(name), pattern)
		}
	}
}

func receive(t *testing.T, deliveries <-chan delivery) delivery {
	t.Helper()
	select {
	case d := <-deliveries:
		return d
	case <-time.After(2 * time.Minute):
		t.Fatal("no delivery in two minutes")
		panic("unreachable")
	}
}

type subscription struct{ id, secret string }

// subscribeFor registers an endpoint over the partner API with a key of its own.
func subscribeFor(t *testing.T, f *adminFixture, account, environment, target string, events []string) subscription {
	t.Helper()
	key := f.Key(t, account, contract.Key{Environment: environment, Scopes: []string{"write:webhooks"}, RateLimit: 100})
	body, err := json.Marshal(map[string]any{"target_url": target, "events": events})
	if err != nil {
		t.Fatal(err)
	}
	text := subscribed(t, f.dev.nodes[0].URL(), key, string(body))
	var made struct {
		Subscription struct{ ID string }
		Secret       string
	}
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return subscription{made.Subscription.ID, made.Secret}
}
