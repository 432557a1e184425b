package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

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
