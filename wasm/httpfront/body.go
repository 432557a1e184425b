package httpfront

import (
	"errors"
	"io"
	"net/http"
)

// MaxBody bounds a request body, in bytes.
const MaxBody = 64 << 10

// maxDrain bounds how much of an unread body is read before the connection is
// closed, in bytes. net/http reads as much of it where drain reads nothing.
const maxDrain = 256 << 10

var errTooLarge = errors.New("read body: too large")

// readBody reads the body, up to MaxBody.
func (x *exchange) readBody() ([]byte, error) {
	if x.r.Body == nil || x.r.Body == http.NoBody {
		return nil, nil
	}
	if x.r.ContentLength > MaxBody {
		return nil, errTooLarge
	}
	x.body.Reset()
	_, err := x.body.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, MaxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, errTooLarge
	}
	return x.body.Bytes(), err
}

// drain reads the rest of the body if the client asked for the connection to be
// closed. net/http itself reads the rest otherwise, also where the answer closes the
// connection. Closing a connection with unread data resets it, and a client that is
// still sending may then never see the answer. Beyond maxDrain, net/http half-closes
// the connection and waits.
func (x *exchange) drain() {
	if !x.r.Close || x.r.Body == nil || x.r.Body == http.NoBody || x.r.Header.Get("Expect") != "" {
		return
	}
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(x.w, x.r.Body, maxDrain)) // fails only if the client is gone
}
