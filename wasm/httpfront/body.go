package httpfront

import (
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
)

// MaxBody bounds a request body, in bytes.
const MaxBody = 64 << 10

// maxDrain bounds how much of an unread body is read behind its answer, in bytes. Beyond
// it the connection is closed. net/http's own bound is the same.
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

// malformed reports whether a body could not be read for its chunks, or was shorter than its
// Content-Length over HTTP/2, which is no better when it is sent again, and not for the
// connection or the time.
func (x *exchange) malformed(err error) bool {
	if x.r.ProtoMajor == 2 {
		return strings.HasPrefix(err.Error(), "request declared a Content-Length")
	}
	_, ofNetwork := errors.AsType[net.Error](err)
	return slices.Contains(x.r.TransferEncoding, "chunked") && x.ctx.Err() == nil && !ofNetwork && !errors.Is(err, io.ErrUnexpectedEOF)
}

// answerFirst makes net/http send the answer before the body has come, which it would
// otherwise wait for. Over HTTP/2 it does not wait, and a body that the client asks to be
// told to send (Expect) is never asked for.
func (x *exchange) answerFirst() {
	if x.r.ProtoMajor != 1 || x.r.Body == nil || x.r.Body == http.NoBody || x.r.Header.Get("Expect") != "" {
		return
	}
	switch {
	case http.NewResponseController(x.w).EnableFullDuplex() != nil:
		// There is no connection.
	case x.r.ContentLength > maxDrain:
		closeBehind(x.w)
	default:
		x.drains = true
	}
}

// drain sends the answer, then reads the rest of the body. Closing a connection with
// unread data resets it, and a client that is still sending may then never see the
// answer. What follows a body that does not end, or is too long, is no request.
func drain(w http.ResponseWriter, r *http.Request) {
	if http.NewResponseController(w).Flush() != nil {
		return // the client is gone
	}
	if _, err := io.CopyN(io.Discard, r.Body, maxDrain+1); !errors.Is(err, io.EOF) {
		closeBehind(w)
	}
}

// closeBehind makes net/http close a connection of HTTP/1 after the answer: its own half
// first, and the rest after a moment in which the client may read. net/http does so for a body beyond the
// bound of a MaxBytesReader, also after the header was sent.
func closeBehind(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = wrapper.Unwrap()
	}
	beyond := http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0)
	_, _ = io.Copy(io.Discard, beyond) // always fails
}
