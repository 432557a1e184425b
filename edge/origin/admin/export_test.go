package admin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"partneredge/store"
)

// TestExportFails answers an export that fails before anything was sent like any
// request, and cuts one that fails later.
func TestExportFails(t *testing.T) {
	a := &api{Config: Config{Log: slog.New(slog.DiscardHandler)}}
	for name, c := range map[string]struct {
		lines, status int
		err           error
	}{
		"at once":         {0, 500, fmt.Errorf("read: %w", store.ErrUnavailable)},
		"with lines kept": {10, 404, fmt.Errorf("read: %w", store.ErrNotFound)},
		"with lines sent": {10_000, 200, fmt.Errorf("read: %w", store.ErrUnavailable)},
		"never":           {10_000, 200, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				a.writeLines(w, r, func(_ context.Context, line func(any) error) error {
					for range c.lines {
						if err := line(strings.Repeat("x", 100)); err != nil {
							return err
						}
					}
					return c.err
				})
			}))
			defer server.Close()
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if cut := c.status == 200 && c.err != nil; (err != nil) != cut {
				t.Errorf("reading the body: %v", err)
			}
			want := map[bool]string{true: "application/x-ndjson", false: "application/json"}[c.status == 200]
			if kind := resp.Header.Get("Content-Type"); resp.StatusCode != c.status || kind != want {
				t.Errorf("status %d, type %s, want %d, %s", resp.StatusCode, kind, c.status, want)
			}
			if c.status != 200 && bytes.Contains(text, []byte("xxx")) {
				t.Errorf("the answer has lines of the export: %s", text)
			}
		})
	}
}
