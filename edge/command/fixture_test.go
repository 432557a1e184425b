package command

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
	"partneredge/wasm/contract"
)

// adminFixture makes what the contract's cases need through the admin API. What
// it made has reached every node when its methods return.
type adminFixture struct {
	dev   *devProcess
	admin *adminapi.Client

	mu  sync.Mutex
	ids map[string]string // of keys, by plaintext
}

func newAdminFixture(d *devProcess) *adminFixture {
	return &adminFixture{
		dev: d, admin: &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()},
		ids: map[string]string{},
	}
}

func (f *adminFixture) call(t testing.TB, method, path string, in, out any) {
	t.Helper()
	if err := f.admin.Call(t.Context(), method, path, in, out); err != nil {
		t.Fatal(err)
	}
}

func (f *adminFixture) Account(t testing.TB, a contract.Account) string {
	t.Helper()
	mode := store.ModeSetup
	if a.Live {
		mode = store.ModeLive
	}
	var made struct {
		ID string `json:"id"`
	}
	f.call(t, "POST", "/accounts", map[string]any{
		"name": a.Name, "activation_mode": mode,
		"agent": map[string]string{"email": a.Email, "full_name": a.Agent},
	}, &made)
	return made.ID
}

type mintedKey struct {
	Key struct {
		ID string `json:"id"`
	} `json:"key"`
	Plaintext string `json:"plaintext"`
}

func (f *adminFixture) Key(t testing.TB, account string, k contract.Key) string {
	t.Helper()
	if len(k.Scopes) == 0 {
		return f.scopeless(t, account, k)
	}
	in := map[string]any{
		"environment": k.Environment, "scopes": k.Scopes, "rate_limit": k.RateLimit,
		"ip_allowlist": k.Allowlist, "label": t.Name()[:min(len(t.Name()), 200)],
	}
	if k.State == contract.Expired {
		in["expires_at"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	}
	var made mintedKey
	f.call(t, "POST", "/accounts/"+account+"/keys", in, &made)
	f.remember(made.Plaintext, made.Key.ID)
	switch k.State {
	case contract.InGrace:
		f.call(t, "POST", "/keys/"+made.Key.ID+"/rotate", nil, nil)
	case contract.GraceExpired:
		f.call(t, "POST", "/keys/"+made.Key.ID+"/rotate", map[string]int{"grace_seconds": 0}, nil)
	case contract.Revoked:
		f.call(t, "POST", "/keys/"+made.Key.ID+"/revoke", nil, nil)
	}
	f.settle(t)
	return made.Plaintext
}

// scopeless makes a key in the database: the admin API makes none without a
// scope.
func (f *adminFixture) scopeless(t testing.TB, account string, k contract.Key) string {
	t.Helper()
	var random [apikey.RandomSize]byte
	_, _ = rand.Read(random[:])
	plaintext := apikey.Mint(abi.Environment(k.Environment), &random)
	key, err := f.dev.origin.db.CreateKey(t.Context(), store.Key{
		AccountID: account, Environment: store.Environment(k.Environment), RateLimit: k.RateLimit,
		Hash: sha256.Sum256([]byte(plaintext)), ExpiresAt: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.remember(plaintext, key.ID)
	f.settle(t)
	return plaintext
}

func (f *adminFixture) remember(plaintext, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids[plaintext] = id
}

// plaintexts of every key that was made.
func (f *adminFixture) plaintexts() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.ids {
		all = append(all, p)
	}
	return all
}

func (f *adminFixture) RevokeKey(t testing.TB, token string) {
	t.Helper()
	f.mu.Lock()
	id := f.ids[token]
	f.mu.Unlock()
	f.call(t, "POST", "/keys/"+id+"/revoke", nil, nil)
}

func (f *adminFixture) Insights(t testing.TB, account string, insights []contract.Insight) {
	t.Helper()
	for len(insights) > 0 { // the admin API takes 100 at a time
		n := min(len(insights), 100)
		var run []map[string]string
		for _, i := range insights[:n] {
			run = append(run, map[string]string{"headline": i.Headline, "detail": i.Detail, "created_at": i.Created.Format(time.RFC3339Nano)})
		}
		f.call(t, "POST", "/accounts/"+account+"/coaching-runs", map[string]any{"insights": run}, nil)
		insights = insights[n:]
	}
	f.settle(t)
}

func (f *adminFixture) Firings(t testing.TB, account string, firings []contract.Firing) {
	t.Helper()
	for _, one := range firings {
		f.call(t, "POST", "/accounts/"+account+"/sentinel-firings", map[string]any{
			"sentinel_name": one.Name, "trigger_data": json.RawMessage(one.Data), "action_taken": one.Action,
			"triggered_at": one.Triggered.Format(time.RFC3339Nano),
		}, nil)
	}
	f.settle(t)
}

func (f *adminFixture) Leads(t testing.TB, account string) (list []contract.Lead) {
	t.Helper()
	await(t, "every lead to be handed over", func() bool { return f.metric(t, "edge_outbox_leads") == 0 })
	var page struct {
		Items []struct {
			ID            string     `json:"id"`
			FirstName     string     `json:"first_name"`
			LastName      string     `json:"last_name"`
			Email         string     `json:"email"`
			Phone         string     `json:"phone"`
			ConsentStatus string     `json:"consent_status"`
			ConsentText   string     `json:"consent_text"`
			CapturedAt    *time.Time `json:"captured_at"`
			Environment   string     `json:"environment"`
		} `json:"items"`
	}
	f.call(t, "GET", "/accounts/"+account+"/leads?limit=200", nil, &page)
	for _, l := range page.Items {
		lead := contract.Lead{
			ID: l.ID, FirstName: l.FirstName, LastName: l.LastName, Email: l.Email, Phone: l.Phone,
			ConsentStatus: l.ConsentStatus, ConsentText: l.ConsentText, Environment: l.Environment,
		}
		if l.CapturedAt != nil {
			lead.Captured = *l.CapturedAt
		}
		list = append(list, lead)
	}
	return list
}

func (f *adminFixture) Subscriptions(t testing.TB, account string) (list []contract.Subscription) {
	t.Helper()
	var page struct {
		Items []struct {
			ID          string     `json:"id"`
			TargetURL   string     `json:"target_url"`
			Environment string     `json:"environment"`
			Events      []string   `json:"events"`
			RevokedAt   *time.Time `json:"revoked_at"`
		} `json:"items"`
	}
	f.call(t, "GET", "/accounts/"+account+"/webhooks?limit=200", nil, &page)
	for _, s := range page.Items {
		list = append(list, contract.Subscription{
			ID: s.ID, TargetURL: s.TargetURL, Environment: s.Environment, Events: s.Events, Revoked: s.RevokedAt != nil,
		})
	}
	return list
}

// settle waits until the nodes know of every change there is.
func (f *adminFixture) settle(t testing.TB) {
	t.Helper()
	log, err := f.dev.origin.db.ChangesSince(t.Context(), central.Position{Seq: math.MaxInt64}, 1)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the nodes to know of every change", func() bool { return f.metric(t, "edge_sync_change") >= float64(log.Latest) })
}

// await polls a condition for as long as compiling may take on a busy machine, ever
// more seldom, since what is waited for needs the processors too.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(5 * time.Minute)
	defer deadline.Stop()
	for pause := 5 * time.Millisecond; !done(); pause = min(pause+pause/4, 100*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-deadline.C:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// metric reads a metric of the first node.
func (f *adminFixture) metric(t testing.TB, name string) float64 {
	t.Helper()
	return metricAt(t, f.dev.nodes[0].MetricsURL()+"/metrics", name)
}

// metricAt reads a metric of a /metrics, the first of them if it has labels, in whole or
// by their pattern.
func metricAt(t testing.TB, url, name string) float64 {
	t.Helper()
	text, err := metricsText(url)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^` + name + `(?:\{[^}]*\})? (\S+)\n$`)
	prefix, _ := line.LiteralPrefix() // which most lines lack: matching is slow
	for one := range strings.Lines(text) {
		if !strings.HasPrefix(one, prefix) {
			continue
		}
		if found := line.FindStringSubmatch(one); found != nil {
			value, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// metricsText reads a /metrics uncompressed: packing it takes a node longer than making it.
func metricsText(url string) (text string, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return string(all), err
}
