package origin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store/central"
)

// world is an origin with a database of its own, and what it logs.
type world struct {
	*testing.T
	*Origin
	config Config
	logs   *safeBuffer
	// contract, when set, is what every exchange is held to.
	contract *contract
}

// guardFunc is a Guard.
type guardFunc func(rawURL string) (string, error)

func (f guardFunc) Check(_ context.Context, rawURL string) (string, error) { return f(rawURL) }

// safeBuffer is a buffer that many goroutines write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// begin starts an origin; change may alter its configuration first.
func begin(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := &world{T: t, logs: new(safeBuffer)}
	dir := t.TempDir()
	log := slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(dir, "central.db"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("closing the database: %v", err)
		}
	})
	w.config = Config{
		Dir: dir, DB: db, Log: log,
		Guard: guardFunc(func(string) (string, error) { return "", nil }),
	}
	for _, c := range change {
		c(&w.config)
	}
	w.start()
	return w
}

func (w *world) start() {
	w.Helper()
	var err error
	if w.Origin, err = Start(w.Context(), w.config); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(w.stop)
}

func (w *world) stop() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) { // a test may have cut it short
		w.Errorf("stopping: %v", err)
	}
}

// call the admin API with the token. body is text, nil, or what marshals.
func (w *world) call(method, path string, body any) (int, map[string]any) {
	w.Helper()
	status, _, text := w.send(method, path, body, "Bearer "+w.Token())
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		w.Fatalf("%s %s answered %d %q: %v", method, path, status, text, err)
	}
	return status, v
}

func (w *world) send(method, path string, body any, authorization string, more ...string) (int, http.Header, []byte) {
	w.Helper()
	var sent []byte
	switch b := body.(type) {
	case nil:
	case string:
		sent = []byte(b)
	default:
		var err error
		if sent, err = json.Marshal(b); err != nil {
			w.Fatal(err)
		}
	}
	header := http.Header{}
	if authorization != "" {
		header.Set("Authorization", authorization)
	}
	for i := 0; i < len(more); i += 2 {
		header.Set(more[i], more[i+1])
	}
	resp, text := w.exchange(method, path, header, sent)
	if w.contract != nil {
		_, pattern := w.contract.routes.Handler(resp.Request)
		w.contract.check(w.T, pattern, resp.Request, sent, resp.StatusCode, resp.Header, text)
	}
	return resp.StatusCode, resp.Header, text
}

// exchange sends a request as it is. The answer's body has been read.
func (w *world) exchange(method, path string, header http.Header, body []byte) (*http.Response, []byte) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.AdminURL()+path, bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp, text
}

// must is call that has to end in status.
func (w *world) must(status int, method, path string, body any) map[string]any {
	w.Helper()
	got, v := w.call(method, path, body)
	if got != status {
		w.Fatalf("%s %s answered %d %v, want %d", method, path, got, v, status)
	}
	return v
}

type object = map[string]any

// account makes an account and returns its id.
func (w *world) account(mode string) string {
	w.Helper()
	v := w.must(201, "POST", "/admin/v1/accounts", object{
		"name": "Harbor Realty", "activation_mode": mode, "agent": object{"email": "ana@example.com", "full_name": "Ana Silva"},
	})
	return v["id"].(string)
}

// key makes a key with every scope and returns its id and plaintext.
func (w *world) key(account, env string) (id, plaintext string) {
	w.Helper()
	v := w.must(201, "POST", "/admin/v1/accounts/"+account+"/keys", object{
		"environment": env,
		"scopes":      []string{"read:agent", "read:coaching", "read:sentinels", "write:webhooks", "write:leads"},
	})
	return v["key"].(object)["id"].(string), v["plaintext"].(string)
}

// member is an enrolled node with its connection.
type member struct {
	*world
	id          string
	credentials string
	conn        *nats.Conn
	errs        chan error // that NATS tells it of
}

func (w *world) enrol(name string) *member {
	w.Helper()
	v := w.must(201, "POST", "/admin/v1/nodes", object{"name": name, "region": "eu-west"})
	m := &member{world: w, id: v["node"].(object)["id"].(string), credentials: v["credentials"].(string), errs: make(chan error, 100)}
	var err error
	if m.conn, err = m.connect(); err != nil {
		w.Fatal(err)
	}
	return m
}

func (m *member) connect(more ...nats.Option) (*nats.Conn, error) {
	conn, err := nats.Connect(m.NATSURL(), append([]nats.Option{
		nats.UserCredentialBytes([]byte(m.credentials)),
		nats.CustomInboxPrefix(wire.Inbox(m.id)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { m.errs <- err }),
		nats.MaxReconnects(2), nats.ReconnectWait(20 * time.Millisecond),
	}, more...)...)
	if err == nil {
		m.Cleanup(conn.Close)
	}
	return conn, err
}

// ask sends a request as the node and returns the reply.
func ask[Reply any](m *member, verb string, request any) Reply {
	m.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		m.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.Context(), 5*time.Second)
	defer cancel()
	msg, err := m.conn.RequestWithContext(ctx, wire.Subject(m.id, verb), body)
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

// eventually polls until f says true.
func (w *world) eventually(what string, f func() bool) {
	w.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			w.Fatalf("after a minute still not: %s", what)
		}
		<-tick.C
	}
}

// next is the next value of a channel.
func next[T any](w *world, c <-chan T, what string) T {
	w.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		w.Fatalf("after a minute still no %s", what)
		panic("unreachable")
	}
}

// publicKeyOf credentials, and the name in their JWT.
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
