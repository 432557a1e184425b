package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/edge/webhook/signature"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/centraltest/sqlitetest"
	"partneredge/store/central/deliveries"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

var schema = sqlitetest.Template{Migrations: "../../store/central/migrations"}

// eachStore runs a test over both databases, side by side.
func eachStore(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, schema.Copy(t, filepath.Join(t.TempDir(), "origin.db")))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, centraltest.Postgres(t))
	})
}

// fixture is a database with one live account, and a sender.
type fixture struct {
	t       testing.TB
	db      *central.DB
	sender  *Sender
	account string
}

// wakeOnCommit wakes a sender when deliveries of its database are due.
func wakeOnCommit(db *central.DB, s *Sender) {
	db.OnCommit(func(c central.Commit) {
		if c.Deliveries > 0 {
			s.Wake()
		}
	})
}

func newFixture(t testing.TB, url string, c Config) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.db = openDB(t, url)
	a, err := f.db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
	must(t, err)
	f.account = a.ID
	f.sender = startSender(t, f.db, c)
	wakeOnCommit(f.db, f.sender)
	return f
}

func openDB(t testing.TB, url string) *central.DB {
	t.Helper()
	db, err := central.Open(t.Context(), central.Config{URL: url})
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return db
}

func startSender(t testing.TB, db *central.DB, c Config) *Sender {
	t.Helper()
	if c.Store == nil {
		c.Store = db
	}
	if c.transport == nil { // an endpoint that is a server, on a machine with other work
		c.Timeout = cmp.Or(c.Timeout, time.Minute)
	}
	if c.Guard == nil {
		c.Guard = NewGuard(GuardConfig{Allow: loopback})
	}
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(logTo{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	s, err := Start(t.Context(), c)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		must(t, s.Stop(ctx))
	})
	return s
}

type logTo struct{ t testing.TB }

func (l logTo) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) subscribe(target string) store.Subscription {
	f.t.Helper()
	s := subscription(f.account, target)
	must(f.t, f.db.AddSubscription(f.t.Context(), s))
	return s
}

func subscription(account, target string) store.Subscription {
	var secret [32]byte
	_, _ = rand.Read(secret[:])
	return store.Subscription{
		ID: store.NewID("whs", time.Now()), AccountID: account, KeyID: store.NewID("key", time.Now()),
		Environment: store.Live, TargetURL: target, Events: []string{store.EventSentinelFired},
		Secret: hex.EncodeToString(secret[:]), CreatedAt: time.Now(),
	}
}

// fire makes an event and returns its id.
func (f *fixture) fire() string {
	f.t.Helper()
	return fire(f.t, f.db, f.account)
}

func fire(t testing.TB, db *central.DB, account string) string {
	t.Helper()
	_, event, err := db.AddFiring(context.Background(), store.Firing{AccountID: account, Name: "price_drop", Data: []byte(`{}`), Action: "notified"})
	must(t, err)
	return event.ID
}

// sleep waits for d; it returns false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool { return wait(ctx, nil, d) }

// until polls a condition, ever more seldom; it fails the test when it does not come true.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	const most = 5 * time.Minute // on a busy machine
	deadline := time.After(most)
	for pause := 5 * time.Millisecond; !condition(); pause = min(pause+pause/4, 100*time.Millisecond) {
		select {
		case <-time.After(pause):
		case <-deadline:
			t.Fatalf("%s: not within %v", what, most)
		}
	}
}

// received is one delivery at a receiver.
type received struct {
	at     time.Time
	header http.Header
	body   []byte
}

// receiver is a TLS endpoint whose answers a test sets.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []received
}

func newReceiver(t testing.TB, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return // the sender was killed in the middle of it
		}
		r.mu.Lock()
		r.got = append(r.got, received{time.Now(), q.Header.Clone(), body})
		r.mu.Unlock()
		if answer != nil {
			answer(w, q)
		}
	}))
	r.EnableHTTP2 = true
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.got...)
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

// caFile holds the certificate that receivers of httptest use, which signs
// itself.
func caFile(t testing.TB, r *receiver) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	must(t, os.WriteFile(file, block, 0o600))
	return file
}

// verified holds that a delivery was signed with secrets when it came.
func verified(t testing.TB, got received, secrets ...string) {
	t.Helper()
	if err := signature.Verify(got.header.Get(signature.Header), got.body, signature.DefaultTolerance, got.at, secrets...); err != nil {
		t.Errorf("signature: %v", err)
	}
}

func (f *fixture) deliveries(filter deliveries.Filter) []store.Delivery {
	f.t.Helper()
	items, _, err := f.db.Deliveries(f.t.Context(), filter, store.Page{Limit: 200})
	must(f.t, err)
	return items
}
