package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/console"
	"partneredge/edge/origin"
	"partneredge/edge/origin/admin"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
)

// world is an origin with its console, and records to show.
type world struct {
	*testing.T
	*origin.Origin
	db      *central.DB
	account store.Account
	webhook store.Subscription
	logs    *bytes.Buffer
}

type openGuard struct{}

func (openGuard) Check(context.Context, string) (string, error) { return "", nil }

func begin(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, logs: new(bytes.Buffer)}
	log := slog.New(slog.NewTextHandler(&locked{b: w.logs}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	dir := t.TempDir()
	var err error
	if w.db, err = central.Open(t.Context(), central.Config{URL: filepath.Join(dir, "central.db")}); err != nil {
		t.Fatal(err)
	}
	w.Origin, err = origin.Start(t.Context(), origin.Config{
		Dir: dir, DB: w.db, Guard: openGuard{}, Log: log,
		Console: func(api http.Handler) (admin.Console, error) {
			return console.New(console.Config{API: api, Log: log})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	})
	w.fill()
	return w
}

// locked is a buffer that many goroutines write.
type locked struct {
	mu sync.Mutex
	b  *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// fill makes an account with a subscription and one delivery of it.
func (w *world) fill() {
	w.Helper()
	ctx := w.Context()
	var err error
	if w.account, err = w.db.CreateAccount(ctx, store.Account{
		Name: "Harbor Realty <& Söhne>", Mode: store.ModeLive, Agent: store.Agent{Email: "ana@example.com", FullName: "Ana Silva"},
	}); err != nil {
		w.Fatal(err)
	}
	w.webhook = store.Subscription{
		ID: store.NewID("whs", time.Now()), AccountID: w.account.ID, KeyID: "key_x", Environment: store.Live,
		TargetURL: "https://hooks.example.com/partner-edge/inbound", Events: []string{store.EventClientContacted}, Secret: strings.Repeat("5e", 32),
	}
	if err := w.db.AddSubscription(ctx, w.webhook); err != nil {
		w.Fatal(err)
	}
	for range 3 {
		if _, _, err := w.db.AddContact(ctx, store.Contact{AccountID: w.account.ID, ClientID: "c", Channel: "sms"}); err != nil {
			w.Fatal(err)
		}
	}
}

// token makes a token by the admin API.
func (w *world) token(role string) (id, plaintext string) {
	w.Helper()
	var made struct {
		Token     struct{ ID string }
		Plaintext string
	}
	w.admin("POST", "/tokens", map[string]string{"name": "Kim of " + role, "role": role}, &made)
	return made.Token.ID, made.Plaintext
}

func (w *world) admin(method, path string, in, out any) {
	w.Helper()
	resp, text := w.try(method, path, in)
	if resp.StatusCode/100 != 2 {
		w.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(text), out); err != nil {
			w.Fatal(err)
		}
	}
}

// try calls the admin API.
func (w *world) try(method, path string, in any) (*http.Response, string) {
	w.Helper()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			w.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(w.Context(), method, w.AdminURL()+"/admin/v1"+path, bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.Token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp, string(text)
}

// serveNode enrols a node of a region that tells the origin of traffic until the
// test ends.
func (w *world) serveNode(region string, perSecond uint64) {
	w.Helper()
	var made struct {
		Node        struct{ ID string }
		Credentials string
	}
	w.admin("POST", "/nodes", map[string]string{"name": "Node of " + region, "region": region}, &made)
	conn, err := nats.Connect(w.NATSURL(), nats.UserCredentialBytes([]byte(made.Credentials)), nats.CustomInboxPrefix(wire.Inbox(made.Node.ID)))
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		sum := wire.Traffic{Latency: make([]uint64, wire.LatencyBuckets)}
		for n := uint64(0); ; n++ {
			rise := perSecond/5 + n%7
			sum.Requests += rise
			sum.Limited += rise / 20
			sum.Errors += n % 2
			sum.Latency[wire.LatencyBucket(time.Millisecond)] += rise - rise/20
			sum.Latency[wire.LatencyBucket(time.Duration(8+n%5)*time.Millisecond)] += rise / 20
			body, _ := json.Marshal(wire.Status{
				Head: wire.Head{V: wire.Version}, Region: region, Release: "v1.4.0", HotKeys: 812, Sandboxes: 24, Traffic: &sum,
				Running: &wire.ReleaseStatus{},
			})
			_ = conn.Publish(wire.Subject(made.Node.ID, wire.VerbStatus), body) // the origin may have ended
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	w.Cleanup(func() {
		stop()
		telling.Wait()
		conn.Close()
	})
}

// rollOut begins to roll a release out to a region; no node of the test takes it.
func (w *world) rollOut(region string) (release store.Release) {
	w.Helper()
	release, _, err := w.db.AddRelease(w.Context(), store.Release{Version: "1.4.0", Digest: "sha256:" + strings.Repeat("5e", 32)})
	if err != nil {
		w.Fatal(err)
	}
	w.until("the rollout is begun", func() bool { // once the node was heard
		resp, text := w.try("POST", "/releases/"+release.ID+"/promote", map[string]any{"regions": []string{region}})
		if resp.StatusCode != http.StatusCreated && !strings.Contains(text, "connected") {
			w.Fatalf("%d %s", resp.StatusCode, text)
		}
		return resp.StatusCode == http.StatusCreated
	})
	return release
}

// until polls for a minute.
func (w *world) until(what string, done func() bool) {
	w.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); !done(); <-tick.C {
		if time.Now().After(deadline) {
			w.Fatalf("after a minute still not: %s", what)
		}
	}
}

// browser is a client with cookies that follows redirects.
type browser struct {
	*world
	client http.Client
	csrf   string
}

var csrfField = regexp.MustCompile(`name="csrf" value="([0-9a-f]{64})"`)

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	return &browser{world: w, client: http.Client{Jar: jar}}
}

// login logs in with a token.
func (w *world) login(token string) *browser {
	w.Helper()
	b := w.browser()
	b.get("login")
	if resp, text := b.post("login", url.Values{"token": {token}}); resp.Request.URL.Path != "/console/" {
		w.Fatalf("login led to %s: %s", resp.Request.URL, text)
	}
	return b
}

// get a page below /console/.
func (b *browser) get(path string) (*http.Response, string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), "GET", b.AdminURL()+"/console/"+path, nil)
	if err != nil {
		b.Fatal(err)
	}
	return b.do(req)
}

// post a form with the last page's token.
func (b *browser) post(path string, form url.Values) (*http.Response, string) {
	b.Helper()
	if form == nil {
		form = url.Values{}
	}
	if !form.Has("csrf") {
		form.Set("csrf", b.csrf)
	}
	req, err := http.NewRequestWithContext(b.Context(), "POST", b.AdminURL()+"/console/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(req)
}

func (b *browser) do(req *http.Request) (*http.Response, string) {
	b.Helper()
	resp, err := b.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	if found := csrfField.FindSubmatch(text); found != nil {
		b.csrf = string(found[1])
	}
	return resp, string(text)
}

func centralFilter(webhook string) central.DeliveryFilter {
	return central.DeliveryFilter{SubscriptionID: webhook}
}
