package connections

import (
	"net/http"
	"net/netip"
	"sync/atomic"
)

// BoundRequests returns a handler that has next serve requests over HTTP/2 within
// bounds; those beyond are reset. Requests from exempt addresses only count in all. Over
// HTTP/1 a connection has one request at a time, and Bound bounds those.
//
// A request counts until its client has taken the answer. Over HTTP/2 a client may put
// that off, for a few bytes sent, and net/http keeps some 25 KiB until then.
func BoundRequests(next http.Handler, bounds Bounds, exempt func(netip.Addr) bool) http.Handler {
	from := originsOf(bounds, exempt)
	var all atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		defer all.Add(-1)
		if all.Add(1) > int64(bounds.All) {
			panic(http.ErrAbortHandler) // resets the request alone
		}
		leave, ok := from.enter(r.RemoteAddr)
		if !ok {
			panic(http.ErrAbortHandler)
		}
		defer leave()
		next.ServeHTTP(w, r)
		// What is left of the answer would be written after this returns.
		_ = http.NewResponseController(w).Flush() // fails only if the client is gone
	})
}
