package httpfront

import (
	"net/http"
	"time"

	"partneredge/wasm/typeid"
)

// RequestID is the header of an answer that names its request, so that a partner can
// quote it and an operator find it in the log.
const RequestID = "X-Request-Id"

// WithRequestID gives each request an id of its own, req_ and a UUIDv7 as typeid
// makes it, which is in the header RequestID of whatever next answers. What a client
// sends under that name counts for nothing. random fills a buffer with fresh random
// bytes. nil: crypto/rand.
func WithRequestID(now func() time.Time, random func([]byte), next http.Handler) http.Handler {
	if random == nil {
		random = fresh
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var bytes [10]byte
		random(bytes[:])
		w.Header()[RequestID] = []string{typeid.Make("req", now().UnixMilli(), bytes)}
		next.ServeHTTP(w, r)
	})
}
