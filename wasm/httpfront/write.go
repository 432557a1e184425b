package httpfront

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"partneredge/wasm/abi"
)

// Answers that no module writes.
var (
	malformed = []byte(`{"error":"malformed_request"}`)
	tooLarge  = []byte(`{"error":"payload_too_large"}`)
	tooSlow   = []byte(`{"error":"request_timeout"}`)
	internal  = []byte(`{"error":"internal_error"}`)

	retrySoon = []abi.Header{{Name: "retry-after", Value: "1"}}
)

// Values of headers. The first three are on every answer unless the module sets others.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
	hangUp   = []string{"close"}
)

// deliver writes the response of a module.
func (x *exchange) deliver(module string, resp *abi.Response) (status int) {
	if resp.Status < 200 || resp.Status > 599 {
		return x.fail(module, fmt.Errorf("read answer: status %d", resp.Status))
	}
	return x.write(resp.Status, resp.Headers, resp.Body)
}

// fail answers a request that a module could not answer, and logs why.
func (x *exchange) fail(module string, err error) (status int) {
	level := slog.LevelError
	if x.ctx.Err() != nil {
		level = slog.LevelDebug // the client went away, which is no fault
	}
	x.front.Log.LogAttrs(x.ctx, level, "request failed",
		slog.String("request", x.w.Header().Get(RequestID)), slog.String("module", module),
		slog.String("method", MethodName(x.r.Method)), slog.String("error", err.Error()))
	return x.write(http.StatusInternalServerError, retrySoon, internal)
}

// write sends the gate's headers, further headers, and the body.
//
// net/http may write the headers after ServeHTTP has returned, when their memory
// belongs to another request. So the values are copied, all into one string,
// which costs two allocations however many they are.
func (x *exchange) write(status int, headers []abi.Header, body []byte) int {
	if !x.bodyRead {
		x.answerFirst()
	}
	h := x.w.Header()
	if status >= http.StatusBadRequest {
		x.refuse(status, body)
	}
	lists := [...][]abi.Header{x.headers, headers}
	x.values = x.values[:0]
	for _, list := range lists {
		for i := range list {
			x.values = append(x.values, list[i].Value...)
		}
	}
	end := len(x.values)
	x.values = strconv.AppendInt(x.values, int64(len(body)), 10)
	rest := string(x.values)
	length := rest[end:]

	values := make([]string, 0, len(x.headers)+len(headers)+1)
	for nth, list := range lists {
		for i := range list {
			n := len(list[i].Value)
			values = append(values, rest[:n])
			rest = rest[n:]
			name := canonical(list[i].Name)
			had := h[name]
			if name == RequestID || ofConnection(name) || nth == 1 && had != nil && ofGate(name) {
				continue // a handler changes neither the node's nor the gate's
			}
			if had != nil {
				h[name] = append(had, values[len(values)-1])
			} else {
				h[name] = values[len(values)-1 : len(values) : len(values)]
			}
		}
	}
	setDefault(h, "Content-Type", jsonType)
	setDefault(h, "Cache-Control", noStore)
	setDefault(h, "X-Content-Type-Options", noSniff)
	bodiless := status == http.StatusNoContent || status == http.StatusNotModified
	if !bodiless {
		values = append(values, length)
		h["Content-Length"] = values[len(values)-1:]
	}
	x.w.WriteHeader(status)
	if !bodiless && x.req.Method != http.MethodHead {
		_, _ = x.w.Write(body) // fails only if the client is gone
	}
	return status
}

// refuse sets what an answer of 400 or more has besides.
func (x *exchange) refuse(status int, body []byte) {
	h := x.w.Header()
	x.outcome.Refusal = refusalOf(body)
	if link := x.front.links[x.outcome.Refusal]; link != nil {
		h["Link"] = link[:1:1] // nobody changes it
	}
	if x.front.HangUp != nil && x.front.HangUp(x.r, status, x.outcome.Refusal) {
		h["Connection"] = hangUp[:1:1]
	}
}

// ofGate reports whether a header, in canonical form, is for the gate to set.
func ofGate(name string) bool {
	return name == "X-Svc-Environment" || strings.HasPrefix(name, "X-Ratelimit-") || strings.HasPrefix(name, "Ratelimit")
}

// ofConnection reports whether a header, in canonical form, is about the connection and
// how messages end on it (RFC 9110, 7.6.1). That is the server's: a module that sets
// Transfer-Encoding, or a name by which net/http takes trailers, changes how the rest of
// the connection is read.
func ofConnection(name string) bool {
	switch name {
	case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(name, http.TrailerPrefix)
}

func setDefault(h http.Header, name string, values []string) {
	if h[name] == nil {
		h[name] = values
	}
}

// canonical is like http.CanonicalHeaderKey. It does not allocate for the headers
// of most answers, and the result never shares the memory of name.
func canonical(name string) string {
	switch name {
	case "x-ratelimit-limit":
		return "X-Ratelimit-Limit"
	case "x-ratelimit-remaining":
		return "X-Ratelimit-Remaining"
	case "x-ratelimit-reset-ms":
		return "X-Ratelimit-Reset-Ms"
	case "ratelimit":
		return "Ratelimit"
	case "ratelimit-policy":
		return "Ratelimit-Policy"
	case "x-svc-environment":
		return "X-Svc-Environment"
	}
	return strings.Clone(http.CanonicalHeaderKey(name))
}
