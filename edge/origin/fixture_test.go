package origin

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest/sqlitetest"
	"partneredge/store/logtest"
)

// schema is the database that every origin on SQLite starts with.
var schema = sqlitetest.Template{Migrations: "../../store/central/migrations"}

// fixture is an origin with a database of its own, and what it logs.
type fixture struct {
	*testing.T
	*Origin
	config Config
	logs   *logtest.Buffer
	// contract, when set, validates every exchange.
	contract *contract
}

// guardFunc is a Guard.
type guardFunc func(rawURL string) (string, error)

func (check guardFunc) Check(_ context.Context, rawURL string) (string, error) { return check(rawURL) }

// newFixture starts an origin; change may alter its configuration first.
func newFixture(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{T: t, logs: new(logtest.Buffer)}
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(f.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	db, err := central.Open(t.Context(), central.Config{URL: schema.Copy(t, filepath.Join(dir, "central.db")), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("closing the database: %v", err)
		}
	})
	f.config = Config{
		Dir: dir, DB: db, Log: log, HandshakeTimeout: 5 * time.Minute, // on a busy machine
		Guard: guardFunc(func(string) (string, error) { return "", nil }),
	}
	for _, c := range change {
		c(&f.config)
	}
	f.start()
	return f
}

// databaseAt has the database keep its time by a clock, as PostgreSQL does by its own.
func databaseAt(t *testing.T, now func() time.Time) func(*Config) {
	return func(c *Config) {
		var err error
		if c.DB, err = central.Open(t.Context(), central.Config{URL: schema.Copy(t, filepath.Join(t.TempDir(), "central.db")), Now: now}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.DB.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// database returns one connection to the origin's SQLite file, behind the origin's back. It
// waits for what the origin writes.
func (f *fixture) database() *sql.DB {
	f.Helper()
	raw, err := sql.Open("sqlite", "file://"+filepath.Join(f.config.Dir, "central.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		f.Fatal(err)
	}
	raw.SetMaxOpenConns(1)
	f.Cleanup(func() {
		if err := raw.Close(); err != nil {
			f.Errorf("closing the second connection to the database: %v", err)
		}
	})
	return raw
}

func (f *fixture) start() {
	f.Helper()
	var err error
	if f.Origin, err = Start(f.Context(), f.config); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(f.stop)
}

func (f *fixture) stop() {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) { // a test may have cut it short
		f.Errorf("stopping: %v", err)
	}
}

// call the admin API with the token. body is text, nil, or what marshals.
func (f *fixture) call(method, path string, body any) (int, map[string]any) {
	f.Helper()
	status, _, text := f.send(method, path, body, "Bearer "+f.Token())
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		f.Fatalf("%s %s answered %d %q: %v", method, path, status, text, err)
	}
	return status, v
}

func (f *fixture) send(method, path string, body any, authorization string, more ...string) (int, http.Header, []byte) {
	f.Helper()
	var sent []byte
	switch b := body.(type) {
	case nil:
	case string:
		sent = []byte(b)
	default:
		var err error
		if sent, err = json.Marshal(b); err != nil {
			f.Fatal(err)
		}
	}
	header := http.Header{}
	if authorization != "" {
		header.Set("Authorization", authorization)
	}
	for i := 0; i < len(more); i += 2 {
		header.Set(more[i], more[i+1])
	}
	resp, text := f.exchange(method, path, header, sent)
	if f.contract != nil {
		_, pattern := f.contract.routes.Handler(resp.Request)
		f.contract.check(f.T, pattern, resp.Request, sent, resp.StatusCode, resp.Header, text)
	}
	return resp.StatusCode, resp.Header, text
}

// exchange sends a request as it is. The answer's body has been read.
func (f *fixture) exchange(method, path string, header http.Header, body []byte) (*http.Response, []byte) {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), method, f.AdminURL()+path, bytes.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		f.Fatal(err)
	}
	return resp, text
}

// must is call that has to end in status.
func (f *fixture) must(status int, method, path string, body any) map[string]any {
	f.Helper()
	got, v := f.call(method, path, body)
	if got != status {
		f.Fatalf("%s %s answered %d %v, want %d", method, path, got, v, status)
	}
	return v
}

type object = map[string]any

// account makes an account and returns its id.
func (f *fixture) account(mode string) string {
	f.Helper()
	v := f.must(201, "POST", "/admin/v1/accounts", object{
		"name": "Harbor Realty", "activation_mode": mode, "agent": object{"email": "ana@example.com", "full_name": "Ana Silva"},
	})
	return v["id"].(string)
}

// key makes a key with every scope and returns its id and plaintext.
func (f *fixture) key(account, env string) (id, plaintext string) {
	f.Helper()
	v := f.must(201, "POST", "/admin/v1/accounts/"+account+"/keys", object{
		"environment": env,
		"scopes":      []string{"read:agent", "read:coaching", "read:sentinels", "write:webhooks", "write:leads"},
	})
	return v["key"].(object)["id"].(string), v["plaintext"].(string)
}

// hash returns the hash of a key, nil of one that does not exist.
func (f *fixture) hash(keyID string) []byte {
	f.Helper()
	key, err := f.config.DB.Key(f.Context(), keyID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		f.Fatal(err)
	}
	return key.Hash[:]
}

// enrolled is an enrolled node with its connection.
type enrolled struct {
	*fixture
	id          string
	address     string // in subjects
	credentials string
	conn        *nats.Conn
	errs        chan error // asynchronous errors of conn
}

// enrol makes a node and connects it.
func (f *fixture) enrol(name string) *enrolled {
	f.Helper()
	m := f.enrolOnly(name, "eu-west")
	var err error
	if m.conn, err = m.connect(); err != nil {
		f.Fatal(err)
	}
	return m
}

// enrolOnly makes a node, which has its id as its address.
func (f *fixture) enrolOnly(name, region string) *enrolled {
	f.Helper()
	v := f.must(201, "POST", "/admin/v1/nodes", object{"name": name, "region": region})
	id := v["node"].(object)["id"].(string)
	return &enrolled{fixture: f, id: id, address: id, credentials: v["credentials"].(string), errs: make(chan error, 100)}
}

func (m *enrolled) connect(more ...nats.Option) (*nats.Conn, error) {
	conn, err := nats.Connect(m.NATSURL(), append([]nats.Option{nats.Timeout(time.Minute),
		nats.UserCredentialBytes([]byte(m.credentials)),
		nats.CustomInboxPrefix(wire.Inbox(m.address)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { m.errs <- err }),
		nats.MaxReconnects(2), nats.ReconnectWait(20 * time.Millisecond),
	}, more...)...)
	if err == nil {
		m.Cleanup(conn.Close)
	}
	return conn, err
}

// ask sends a request as the node and returns the reply.
func ask[Reply any](m *enrolled, verb string, request any) Reply {
	m.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		m.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.Context(), time.Minute)
	defer cancel()
	msg, err := m.conn.RequestWithContext(ctx, wire.Subject(m.address, verb), body)
	if err != nil {
		m.Fatalf("asking %s: %v", verb, err)
	}
	var reply Reply
	if err := json.Unmarshal(msg.Data, &reply); err != nil {
		m.Fatalf("asking %s: %q: %v", verb, msg.Data, err)
	}
	return reply
}

var head = wire.Head{V: wire.Version}

// eventually polls until done returns true, ever more seldom: what is waited for needs
// the processors too.
func (f *fixture) eventually(what string, done func() bool) {
	f.Helper()
	const most = 5 * time.Minute
	deadline := time.Now().Add(most)
	for pause := 5 * time.Millisecond; !done(); pause = min(pause+pause/4, 100*time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("not within %v: %s", most, what)
		}
		<-time.After(pause)
	}
}

// next receives the next value of a channel.
func next[T any](f *fixture, c <-chan T, what string) T {
	f.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(5 * time.Minute):
		f.Fatalf("after five minutes still no %s", what)
		panic("unreachable")
	}
}

// publicKeyOf returns the public key of credentials, and the name in their JWT.
func publicKeyOf(t *testing.T, credentials string) (publicKey, name string) {
	t.Helper()
	token, err := jwt.ParseDecoratedJWT([]byte(credentials))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	return claims.Subject, claims.Name
}
