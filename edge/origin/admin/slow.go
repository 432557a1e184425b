package admin

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// slow makes a body, for longer perhaps than a client or a proxy waits for an answer. An
// error within the first signEvery is answered as that of any request.
type slow func(context.Context) (any, error)

// signEvery is the time between two signs that a slow body is still being made.
const signEvery = 10 * time.Second

// writeSlow sends a body once it is made. Until then the client gets white space, which may
// come before any JSON. Where that has begun and the body cannot be made, the connection is
// cut, so that no client takes what it has for an answer.
func (a *api) writeSlow(w http.ResponseWriter, r *http.Request, status int, body slow) {
	sent := newDeadlined(w, status, "application/json")
	v, err := sent.whileMade(r.Context(), body)
	var text []byte
	if err == nil && sent.begun {
		text, err = encode(v)
	}
	switch {
	case err == nil && sent.begun:
		_, _ = sent.Write(append(text, '\n')) // the client may be gone
	case err == nil:
		WriteJSON(w, status, v)
	case !sent.begun:
		a.refuse(w, r, err)
	default:
		a.Log.Error("an answer was cut short", "method", r.Method, "route", r.Pattern, "err", err)
		panic(http.ErrAbortHandler)
	}
}

// whileMade makes a body and sends signs of it, until it is made or the client is gone.
func (d *deadlined) whileMade(ctx context.Context, body slow) (any, error) {
	made := make(chan struct{})
	var signs sync.WaitGroup
	defer signs.Wait()
	defer close(made)
	signs.Go(func() {
		tick := time.NewTicker(signEvery)
		defer tick.Stop()
		for {
			select {
			case <-made:
				return
			case <-tick.C:
			}
			if _, err := d.Write([]byte{' '}); err != nil || d.control.Flush() != nil {
				return
			}
		}
	})
	return body(ctx)
}
