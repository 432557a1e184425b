package node

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// age travels with a request: for how long it has not been known whether what
// it is answered from is still so. An answer made while the origin is away
// carries it in the Age header (RFC 9111, section 5.1).
type age struct{ atomic.Int64 } // nanoseconds

type ageKey struct{}

// noteAge tells the request of ctx that it is answered from a record of this
// age; 0 when it is current.
func noteAge(ctx context.Context, d time.Duration) {
	if a, ok := ctx.Value(ageKey{}).(*age); ok && d > 0 {
		a.Store(max(a.Load(), int64(d)))
	}
}

// withAge has next's answers carry their Age.
func withAge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := new(age)
		next.ServeHTTP(&agedWriter{w, a}, r.WithContext(context.WithValue(r.Context(), ageKey{}, a)))
	})
}

type agedWriter struct {
	http.ResponseWriter
	age *age
}

// WriteHeader implements http.ResponseWriter.
func (w *agedWriter) WriteHeader(status int) {
	if d := time.Duration(w.age.Load()); d > 0 && status < 300 {
		w.Header().Set("Age", strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10))
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *agedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
