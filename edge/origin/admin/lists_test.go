package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
)

// limited reports whether err tells the client to try again later.
func limited(err error) bool {
	p, ok := errors.AsType[*input.Problem](err)
	return ok && p.Kind == input.KindLimited && p.RetryAfter > 0
}

// TestListsAreBounded has as many lists as may be read go on for ever: the next waits until
// its client is gone, or until one of them has taken too long.
func TestListsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(t.Context(), Config{Now: time.Now}, nil).(*api)
		list := func(ctx context.Context, read func(context.Context) error) error {
			_, err := a.bounded(func(r *http.Request) (answer, error) { return answer{}, read(r.Context()) })(
				httptest.NewRequestWithContext(ctx, "GET", "/", nil))
			return err
		}
		began, ended := time.Now(), make(chan error, listsMost)
		for range listsMost {
			go func() {
				ended <- list(t.Context(), func(ctx context.Context) error {
					<-ctx.Done()
					return store.ErrUnavailable
				})
			}()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := list(gone, func(context.Context) error { return errors.New("it was read") }); !limited(err) {
			t.Errorf("beside all that may be read: %v", err)
		}
		if err := list(t.Context(), func(context.Context) error { return nil }); err != nil || time.Since(began) != listTime {
			t.Errorf("another was read after %v: %v", time.Since(began), err)
		}
		for range listsMost {
			if err := <-ended; !limited(err) {
				t.Errorf("what took too long: %v", err)
			}
		}
		if err := list(t.Context(), func(context.Context) error { return store.ErrNotFound }); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("what is not found: %v", err)
		}
	})
}

// TestEveryListIsBounded: each route that the document says has pages waits while as many lists
// as may be are being read.
func TestEveryListIsBounded(t *testing.T) {
	type parameter struct {
		Ref string `json:"$ref"`
	}
	var document struct {
		Paths map[string]struct {
			Get struct{ Parameters []parameter }
		}
	}
	if err := json.Unmarshal(adminapi.OpenAPI(), &document); err != nil {
		t.Fatal(err)
	}
	a := New(t.Context(), Config{Now: time.Now}, nil).(*api)
	for range listsMost {
		a.lists <- struct{}{}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	tried := 0
	for _, r := range a.all() {
		path, isGet := strings.CutPrefix(r.pattern, "GET /admin/v1")
		if !isGet || !slices.Contains(document.Paths[path].Get.Parameters, parameter{"#/components/parameters/cursor"}) {
			continue
		}
		tried++
		func() {
			defer func() {
				if failed := recover(); failed != nil { // there is no database
					t.Errorf("%s is read: %v", r.pattern, failed)
				}
			}()
			if _, err := r.serve(httptest.NewRequestWithContext(gone, "GET", "/", nil)); !limited(err) {
				t.Errorf("%s beside as many lists as may be read: %v", r.pattern, err)
			}
		}()
	}
	if tried < 10 {
		t.Errorf("%d lists have pages", tried)
	}
}
