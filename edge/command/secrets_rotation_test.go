package command

import (
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/origin"
	"partneredge/store"
	"partneredge/store/central/centraltest"
)

// TestKeyFileRotation goes the way of an operator who changes the key that
// signing secrets are sealed with: the new key first, a start, the old key out.
func TestKeyFileRotation(t *testing.T) {
	for kind, database := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return filepath.Join(t.TempDir(), "origin.db") },
		"postgres": centraltest.Postgres,
	} {
		t.Run(kind, func(t *testing.T) { rotateKeyFile(t, database(t)) })
	}
}

func rotateKeyFile(t *testing.T, database string) {
	ctx := t.Context()
	dir := t.TempDir()
	config := originConfig{database: database, Config: origin.Config{
		Dir: dir, AdminAddr: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
	}}
	keys := filepath.Join(dir, "secrets.keys")
	driver := map[bool]string{true: "pgx", false: "sqlite"}[strings.HasPrefix(database, "postgres:")]
	raw, err := sql.Open(driver, database)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	const secret = "3f1c0c6a5e0b4d2f9a7b8c6d5e4f30213f1c0c6a5e0b4d2f9a7b8c6d5e4f3021"
	var id, kept string
	running := func(what string, then func(*originProcess)) {
		t.Helper()
		o, err := startOrigin(ctx, config)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer func() {
			if err := o.stop(ctx); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}()
		if then != nil {
			then(o)
		}
		endpoints, err := o.db.Endpoints(ctx, []string{id})
		if err != nil || len(endpoints[id].Secrets) != 1 || endpoints[id].Secrets[0] != secret {
			t.Errorf("%s: the secret cannot be used: %v", what, err)
		}
		if err := raw.QueryRow(`SELECT secret FROM subscriptions`).Scan(&kept); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(kept, secret) {
			t.Errorf("%s: the secret is kept in the clear", what)
		}
	}
	running("at first", func(o *originProcess) {
		a, err := o.db.CreateAccount(ctx, store.Account{Name: "A", Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
		if err != nil {
			t.Fatal(err)
		}
		id = "whs_1"
		if err := o.db.AddSubscription(ctx, store.Subscription{
			ID: id, AccountID: a.ID, KeyID: "key_1", Environment: store.Live, TargetURL: "https://partner.example/",
			Events: []string{store.EventSentinelFired}, Secret: secret,
		}); err != nil {
			t.Fatal(err)
		}
	})
	info, err := os.Stat(keys)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key file: %v, %v", info, err)
	}
	old, err := os.ReadFile(keys)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fresh := "fresh:" + strings.Repeat("07", 32) + "\n"
	first := kept
	write(string(old) + fresh)
	running("with a second key behind the first", nil)
	if kept != first {
		t.Error("sealed anew without need")
	}
	write(fresh + string(old))
	running("with the new key first", nil)
	if !strings.HasPrefix(kept, "sealed:fresh:") {
		t.Errorf("not sealed with the new key: %s", kept)
	}
	write(fresh)
	running("without the old key", nil)
}
