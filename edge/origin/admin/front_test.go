package admin

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"
)

// TestPanics: a panic is answered as a fault, and not described.
func TestPanics(t *testing.T) {
	a, err := newAPI(t.Context(), Config{ // without a database, any use of which panics
		TokenFile: filepath.Join(t.TempDir(), "token"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Observe: func(string, int, time.Duration) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := a.handler()
	for path, want := range map[string]int{"/admin/v1/accounts": 500, "/healthz": 200} {
		req := httptest.NewRequest("GET", path, nil)
		req.Header.Set("Authorization", "Bearer "+a.token)
		recorded := httptest.NewRecorder()
		handler.ServeHTTP(recorded, req)
		if recorded.Code != want || want == 500 && recorded.Body.String() != "{\"error\":\"internal_error\"}\n" {
			t.Errorf("a panic at %s answered %d %s", path, recorded.Code, recorded.Body)
		}
	}
}

// TestAdminsOnly: every pattern that only admins may use is one of a route.
func TestAdminsOnly(t *testing.T) {
	patterns := make(map[string]bool)
	for _, r := range Routes() {
		patterns[r.Pattern] = true
	}
	for _, pattern := range adminsOnly {
		if !patterns[pattern] {
			t.Errorf("no route %s", pattern)
		}
	}
}
