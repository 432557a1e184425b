package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central/audit"
)

// limited reports whether err tells the client to try again later.
func limited(err error) bool {
	p, ok := errors.AsType[*input.Problem](err)
	return ok && p.Kind == input.KindLimited && p.RetryAfter > 0
}

// by returns a context of an actor.
func by(ctx context.Context, actor string) context.Context {
	return audit.WithActor(ctx, store.Actor{ID: actor})
}

// readList has an actor read a list.
func readList(ctx context.Context, a *api, actor string, read func(context.Context) error) error {
	_, err := a.bounded(func(r *http.Request) (answer, error) { return answer{}, read(r.Context()) })(
		httptest.NewRequestWithContext(by(ctx, actor), "GET", "/", nil))
	return err
}

// TestListsAreShared: an actor who reads all lists that one may read waits for the next of them,
// and another one's are read meanwhile.
func TestListsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(t.Context(), Config{Now: time.Now}, nil).(*api)
		goOn, begun, ended := make(chan struct{}), 0, make(chan error)
		var mu sync.Mutex
		for range listsMost {
			go func() {
				ended <- readList(t.Context(), a, "greedy", func(context.Context) error {
					mu.Lock()
					begun++
					mu.Unlock()
					<-goOn
					return nil
				})
			}()
		}
		synctest.Wait()
		if begun != listsOfOne {
			t.Errorf("%d lists of one actor are being read", begun)
		}
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := readList(gone, a, "greedy", func(context.Context) error { return errors.New("it was read") }); !limited(err) {
			t.Errorf("another one of the same actor: %v", err)
		}
		if err := readList(gone, a, "other", func(context.Context) error { return nil }); !limited(err) {
			t.Errorf("of a client that is gone: %v", err)
		}
		for range 5 {
			began := time.Now()
			if err := readList(t.Context(), a, "other", func(context.Context) error { return nil }); err != nil || time.Since(began) > 0 {
				t.Errorf("another actor's list was read after %v: %v", time.Since(began), err)
			}
		}
		close(goOn)
		for range listsMost {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestListsAreBounded has as many lists as may be read go on for ever, each of another actor: the
// next waits until its client is gone, or until one of them has taken too long.
func TestListsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(t.Context(), Config{Now: time.Now}, nil).(*api)
		began, ended := time.Now(), make(chan error, listsMost)
		for i := range listsMost {
			go func() {
				ended <- readList(t.Context(), a, fmt.Sprint("actor ", i), func(ctx context.Context) error {
					<-ctx.Done()
					return store.ErrUnavailable
				})
			}()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := readList(gone, a, "another", func(context.Context) error { return errors.New("it was read") }); !limited(err) {
			t.Errorf("beside all that may be read: %v", err)
		}
		if err := readList(t.Context(), a, "another", func(context.Context) error { return nil }); err != nil || time.Since(began) != listTime {
			t.Errorf("another was read after %v: %v", time.Since(began), err)
		}
		for range listsMost {
			if err := <-ended; !limited(err) {
				t.Errorf("what took too long: %v", err)
			}
		}
		if err := readList(t.Context(), a, "another", func(context.Context) error { return store.ErrNotFound }); !errors.Is(err, store.ErrNotFound) {
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
	for i := range listsMost {
		if _, ok := a.lists.Take(fmt.Sprint("actor ", i)); !ok {
			t.Fatal("there is no place")
		}
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

// TestOutcomesAreBounded: counting the newest deliveries waits for a place as lists do.
func TestOutcomesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(t.Context(), Config{Now: time.Now}, nil).(*api)
		for range listsOfOne {
			a.lists.Take("greedy")
		}
		w := httptest.NewRecorder()
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "greedy", Role: store.RoleViewer})
		a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/admin/v1/outcomes", nil))
		if w.Code != http.StatusTooManyRequests {
			t.Errorf("beside all that one actor may read: %d %s", w.Code, w.Body)
		}
	})
}
