package httpfront_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/httpfront"
)

// TestRequestID: each answer has an id of its own, whatever the client sends, and the
// log of a request that failed has it too.
func TestRequestID(t *testing.T) {
	var log bytes.Buffer
	at := time.UnixMilli(1_700_000_000_000)
	filled := byte(0)
	random := func(b []byte) {
		filled++
		for i := range b {
			b[i] = filled
		}
	}
	fails := httpfront.Module{Caller: caller(func(*abi.Request, *abi.Response) error { return errors.New("trapped") })}
	front := httpfront.New(httpfront.Config{
		Modules: &httpfront.Modules{Gate: fails},
		Now:     func() time.Time { return at }, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	h := httpfront.WithRequestID(func() time.Time { return at }, random, front)
	seen := map[string]bool{}
	for range 3 {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set(httpfront.RequestID, "req_theirs")
		h.ServeHTTP(w, r)
		id := w.Header().Get(httpfront.RequestID)
		if w.Code != http.StatusInternalServerError || !strings.HasPrefix(id, "req_01hf7yat00") || len(id) != 30 || seen[id] {
			t.Errorf("answered %d with id %q, of ids seen %v", w.Code, id, seen)
		}
		if !strings.Contains(log.String(), "request="+id) {
			t.Errorf("the log does not name %s: %s", id, &log)
		}
		seen[id] = true
	}
}
