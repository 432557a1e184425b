package admin

import (
	"bufio"
	"context"
	"net/http"
	"sync"
	"time"
)

// lines is a body of JSON values, one a line, that may be of any length. It ends with
// ctx. An error before any of it is sent is answered as that of any request.
type lines func(ctx context.Context, line func(any) error) error

// recheckEvery is the time between two looks at whether the token of a long answer still holds.
const recheckEvery = 10 * time.Second

// linesWrite bounds the time that a client takes for one write of lines.
const linesWrite = 30 * time.Second

// writeLines sends lines as they are made. An error before any of them is sent is
// answered as that of any request. What cannot be sent to its end is cut, so that no
// client takes it for whole. So is what goes on when its token is revoked, within recheckEvery.
func (a *api) writeLines(w http.ResponseWriter, r *http.Request, body lines) {
	sent := newDeadlined(w, http.StatusOK, "application/x-ndjson")
	out := bufio.NewWriterSize(sent, 64<<10)
	checked := time.Now()
	err := body(r.Context(), func(v any) error {
		if now := time.Now(); now.Sub(checked) >= recheckEvery {
			if err := a.recheck(r); err != nil {
				return err
			}
			checked = now
		}
		text, err := encode(v)
		if err == nil {
			_, err = out.Write(append(text, '\n'))
		}
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
	case !sent.begun:
		a.refuse(w, r, err)
	default:
		a.Log.Warn("an export was cut short", "route", r.Pattern, "err", err)
		panic(http.ErrAbortHandler)
	}
}

// deadlined gives the client linesWrite for each write, in place of one time for all.
type deadlined struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
	kind    string // the content type
	begun   bool
}

func newDeadlined(w http.ResponseWriter, status int, kind string) *deadlined {
	return &deadlined{ResponseWriter: w, control: http.NewResponseController(w), status: status, kind: kind}
}

func (d *deadlined) Write(b []byte) (int, error) {
	if err := d.control.SetWriteDeadline(time.Now().Add(linesWrite)); err != nil {
		return 0, err
	}
	if !d.begun {
		h := d.Header()
		h.Set("Content-Type", d.kind)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		d.WriteHeader(d.status)
		d.begun = true
	}
	return d.ResponseWriter.Write(b)
}

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
		tick := time.Tick(signEvery)
		for {
			select {
			case <-made:
				return
			case <-tick:
			}
			if _, err := d.Write([]byte{' '}); err != nil || d.control.Flush() != nil {
				return
			}
		}
	})
	return body(ctx)
}
