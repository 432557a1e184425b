package node

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// aged is the context and the writer of a request. It knows for how long the
// record that answers the request has not been known to be current; an answer
// made while the origin is away says so in its Age header (RFC 9111, section
// 5.1).
type aged struct {
	context.Context
	http.ResponseWriter
	age atomic.Int64 // nanoseconds
}

// withAge returns a context and a writer by which the answer carries its Age.
func withAge(w http.ResponseWriter, r *http.Request) (context.Context, http.ResponseWriter) {
	a := &aged{Context: r.Context(), ResponseWriter: w}
	return a, a
}

type agedKey struct{}

// Value implements context.Context.
func (a *aged) Value(key any) any {
	if key == (agedKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// noteAge records that the request of ctx is answered from a record of this age,
// 0 if the record is current.
func noteAge(ctx context.Context, d time.Duration) {
	if a, ok := ctx.Value(agedKey{}).(*aged); ok && d > 0 {
		a.age.Store(max(a.age.Load(), int64(d)))
	}
}

// WriteHeader implements http.ResponseWriter.
func (a *aged) WriteHeader(status int) {
	if d := time.Duration(a.age.Load()); d > 0 && status < 300 {
		a.Header().Set("Age", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the connection.
func (a *aged) Unwrap() http.ResponseWriter { return a.ResponseWriter }
