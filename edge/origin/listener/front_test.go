package listener

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/origin/admin"
	"partneredge/store/central"
	"partneredge/store/logtest"
)

// TestPanics: a panic is answered as a fault, and not described.
func TestPanics(t *testing.T) {
	s, err := newServer(t.Context(), Config{ // without a database, any use of which panics
		TokenFile: filepath.Join(t.TempDir(), "token"), Observe: func(string, int, time.Duration) {},
		Admin: admin.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := s.server.Handler
	for path, want := range map[string]int{"/admin/v1/accounts": 500, "/healthz": 200} {
		req := httptest.NewRequest("GET", path, nil)
		req.Header.Set("Authorization", "Bearer "+s.token)
		recorded := httptest.NewRecorder()
		handler.ServeHTTP(recorded, req)
		if recorded.Code != want || want == 500 && recorded.Body.String() != "{\"error\":\"internal_error\"}\n" {
			t.Errorf("a panic at %s answered %d %s", path, recorded.Code, recorded.Body)
		}
	}
}

// TestStrangersDoNotFillTheLog: while the database is away, requests without a right token bring
// about one line a minute of each kind, however many there are.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	db, err := central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "central.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	s, err := newServer(t.Context(), Config{
		TokenFile: filepath.Join(t.TempDir(), "token"), Observe: func(string, int, time.Duration) {},
		Admin: admin.Config{DB: db, Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	token := admin.TokenPrefix + admin.RandomHex()
	for _, c := range []struct {
		path, scheme string
		status       int
	}{
		{"/readyz", "", 503},
		{"/admin/v1/accounts", "Bearer ", 500},
		{"/v2/", "Bearer ", 500},
	} {
		before := strings.Count(log.String(), "\n")
		for range 100 {
			req := httptest.NewRequest("GET", c.path, nil)
			req.Header.Set("Authorization", c.scheme+token)
			recorded := httptest.NewRecorder()
			if s.server.Handler.ServeHTTP(recorded, req); recorded.Code != c.status {
				t.Fatalf("%s answered %d %s", c.path, recorded.Code, recorded.Body)
			}
		}
		if lines := strings.Count(log.String(), "\n") - before; lines != 1 {
			t.Errorf("100 requests for %s bring about %d lines in the log, want 1", c.path, lines)
		}
	}
}

// TestMetricsFromElsewhere: metrics tell who feeds how much, so only this machine sees
// them without a token.
func TestMetricsFromElsewhere(t *testing.T) {
	s, err := newServer(t.Context(), Config{
		TokenFile: filepath.Join(t.TempDir(), "token"), Observe: func(string, int, time.Duration) {},
		Admin:   admin.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now},
		Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		peer, host, proxied string
		status              int // without a token
	}{
		{"127.0.0.1:5", "localhost:8090", "", 200},
		{"[::1]:5", "localhost:8090", "", 200},
		{"[::ffff:127.0.0.1]:5", "localhost:8090", "", 200},
		{"127.0.0.1:5", "localhost:8090", "192.0.2.1", 401},
		{"127.0.0.1:5", "evil.example:8090", "", 401},
		{"192.0.2.1:5", "localhost:8090", "", 401},
		{"", "localhost:8090", "", 401},
	} {
		for token, want := range map[string]int{"": c.status, "Bearer " + s.token: 200} {
			req := httptest.NewRequest("GET", "/metrics", nil)
			req.RemoteAddr, req.Host = c.peer, c.host
			req.Header.Set("Authorization", token)
			if c.proxied != "" {
				req.Header.Set("X-Forwarded-For", c.proxied)
			}
			recorded := httptest.NewRecorder()
			s.server.Handler.ServeHTTP(recorded, req)
			if recorded.Code != want {
				t.Errorf("from %+v with token %v answered %d", c, token != "", recorded.Code)
			}
		}
	}
}
