package listener

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"partneredge/edge/origin/admin"
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
	handler := s.Handler()
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
