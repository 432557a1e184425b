package httpfront

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"partneredge/wasm/abi"
)

// The answers that are the front's own.
var (
	tooLarge = []byte(`{"error":"payload_too_large"}`)
	tooSlow  = []byte(`{"error":"request_timeout"}`)
	internal = []byte(`{"error":"internal_error"}`)

	soon = []abi.Header{{Name: "retry-after", Value: "1"}}
)

// Headers that every answer has, unless the module says otherwise.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
)

// deliver writes what a module answered, under the gate's headers.
func (s *Front) deliver(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, gate []abi.Header, resp *abi.Response, module string) int {
	if resp.Status < 200 || resp.Status > 599 {
		return s.fail(ctx, w, r, c, gate, module, fmt.Errorf("read answer: status %d", resp.Status))
	}
	return c.write(w, r, resp.Status, gate, resp.Headers, resp.Body)
}

// fail answers a request that a module could not. Why is for the log alone.
func (s *Front) fail(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, gate []abi.Header, module string, err error) int {
	level := slog.LevelError
	if ctx.Err() != nil {
		level = slog.LevelDebug // the client went away: nothing is wrong here
	}
	s.Log.LogAttrs(ctx, level, "request failed",
		slog.String("module", module), slog.String("method", r.Method), slog.String("error", err.Error()))
	return c.write(w, r, http.StatusInternalServerError, gate, soon, internal)
}

// write sends the gate's headers, the handler's, and the body.
//
// net/http may write the headers after ServeHTTP has returned, when the room
// that they came in is another request's. So their values are copied out: all
// into one string, which costs two allocations whatever their number.
func (c *call) write(w http.ResponseWriter, r *http.Request, status int, gate, handler []abi.Header, body []byte) int {
	drain(w, r)
	lists := [...][]abi.Header{gate, handler}
	c.values = c.values[:0]
	for _, list := range lists {
		for i := range list {
			c.values = append(c.values, list[i].Value...)
		}
	}
	headers := len(c.values)
	c.values = strconv.AppendInt(c.values, int64(len(body)), 10)
	rest := string(c.values)
	length := rest[headers:]

	h := w.Header()
	values := make([]string, 0, len(gate)+len(handler)+1)
	for _, list := range lists {
		for i := range list {
			n := len(list[i].Value)
			values = append(values, rest[:n])
			rest = rest[n:]
			name := canonical(list[i].Name)
			if had := h[name]; had != nil {
				h[name] = append(had, values[len(values)-1])
			} else {
				h[name] = values[len(values)-1 : len(values) : len(values)]
			}
		}
	}
	orElse(h, "Content-Type", jsonType)
	orElse(h, "Cache-Control", noStore)
	orElse(h, "X-Content-Type-Options", noSniff)
	bodiless := status == http.StatusNoContent || status == http.StatusNotModified
	if !bodiless {
		values = append(values, length)
		h["Content-Length"] = values[len(values)-1:]
	}
	w.WriteHeader(status)
	if !bodiless && c.req.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone; there is nobody to tell
	}
	return status
}

func orElse(h http.Header, name string, values []string) {
	if h[name] == nil {
		h[name] = values
	}
}

// canonical is http.CanonicalHeaderKey, without an allocation for the headers
// of nearly every answer, and never in the room that name lies in.
func canonical(name string) string {
	switch name {
	case "x-ratelimit-limit":
		return "X-Ratelimit-Limit"
	case "x-ratelimit-remaining":
		return "X-Ratelimit-Remaining"
	case "x-ratelimit-reset-ms":
		return "X-Ratelimit-Reset-Ms"
	case "x-svc-environment":
		return "X-Svc-Environment"
	}
	return strings.Clone(http.CanonicalHeaderKey(name))
}
