package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/store"
)

// clocked is a recorder of a server that ends a connection whose write deadline is over.
type clocked struct {
	*httptest.ResponseRecorder
	deadline time.Time
	late     int // writes after the deadline
}

func (c *clocked) SetWriteDeadline(at time.Time) error {
	c.deadline = at
	return nil
}

func (c *clocked) Write(b []byte) (int, error) {
	if time.Now().After(c.deadline) {
		c.late++
	}
	return c.ResponseRecorder.Write(b)
}

// TestSlowBodies: a body that takes minutes to be made reaches its client, who hears of it
// meanwhile. One that fails is refused like any other, or cut if it has begun.
func TestSlowBodies(t *testing.T) {
	a := &api{Config: Config{Log: slog.New(slog.DiscardHandler)}}
	for name, c := range map[string]struct {
		takes  time.Duration
		err    error
		status int
		cut    bool
	}{
		"at once":       {0, nil, 201, false},
		"in minutes":    {5 * time.Minute, nil, 201, false},
		"refused":       {0, fmt.Errorf("read: %w", store.ErrNotFound), 404, false},
		"failed later":  {5 * time.Minute, fmt.Errorf("read: %w", store.ErrUnavailable), 201, true},
		"panicked soon": {0, nil, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &clocked{ResponseRecorder: httptest.NewRecorder(), deadline: time.Now().Add(time.Minute)}
				defer func() {
					if cut := recover() != nil; cut != c.cut || w.Code != c.status || w.late > 0 {
						t.Errorf("cut %t, status %d, %d late writes", cut, w.Code, w.late)
					}
					space := strings.Count(w.Body.String(), " ")
					if signs := int(c.takes / signEvery); space != signs && space != signs-1 {
						t.Errorf("%d signs in %s", space, c.takes)
					}
					var v map[string]any
					if err := json.Unmarshal(w.Body.Bytes(), &v); (err == nil) == c.cut {
						t.Errorf("answered %q", w.Body)
					}
				}()
				a.writeSlow(w, httptest.NewRequest(http.MethodDelete, "/x", nil), http.StatusCreated, func(context.Context) (any, error) {
					if name == "panicked soon" {
						panic(name)
					}
					time.Sleep(c.takes)
					return map[string]string{"id": "x"}, c.err
				})
			})
		})
	}
}

// TestExportEndsWithItsToken: an export that is under way is cut soon after its token is revoked.
func TestExportEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		revoked := false
		a := &api{Config: Config{Log: slog.New(slog.DiscardHandler)}, recheck: func(*http.Request) error {
			if revoked {
				return store.ErrNotFound
			}
			return nil
		}}
		w := &clocked{ResponseRecorder: httptest.NewRecorder()}
		sent := 0
		defer func() {
			if recover() == nil || sent < 100 || sent > 100+int(recheckEvery/time.Second) {
				t.Errorf("%d lines were sent", sent)
			}
		}()
		a.writeLines(w, httptest.NewRequest(http.MethodGet, "/x", nil), func(_ context.Context, line func(any) error) error {
			for sent < 200 {
				if err := line(strings.Repeat("x", 100<<10)); err != nil {
					return err
				}
				sent++
				revoked = sent == 100 || revoked
				time.Sleep(time.Second)
			}
			return nil
		})
	})
}
