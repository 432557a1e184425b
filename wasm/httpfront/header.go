package httpfront

import "net/http"

// MaxHeader bounds a request's line and headers, in bytes, as HTTP/1.1 writes them. A
// server's own bound must lie above it, so that it is the front that refuses: what
// net/http refuses has neither a request id nor a body in JSON.
const MaxHeader = 16 << 10

var headerTooLarge = []byte(`{"error":"header_too_large"}`)

// headerSize returns the bytes of a request's line and headers.
func headerSize(r *http.Request) int {
	size := len("  HTTP/1.1\r\n") + len(r.Method) + len(r.RequestURI) + len("Host: \r\n") + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(": \r\n") + len(value)
		}
	}
	return size
}
