package webhook

import (
	"net/http"
	"strconv"
	"time"

	"partneredge/edge/webhook/signature"
)

// httpHeader returns headers of Message.Headers as net/http takes them. Their values
// share one slice.
func httpHeader(headers map[string]string) http.Header {
	header, values := make(http.Header, len(headers)), make([]string, 0, len(headers))
	for name, value := range headers {
		values = append(values, value)
		n := len(values)
		header[canonicalName(name)] = values[n-1 : n : n]
	}
	return header
}

// canonicalName returns a header's name in its canonical form, at no cost for the names of
// our own, which net/http would make anew for each request.
func canonicalName(name string) string {
	switch name {
	case "x-svc-signature":
		return "X-Svc-Signature"
	case "x-svc-timestamp":
		return "X-Svc-Timestamp"
	case "x-svc-event":
		return "X-Svc-Event"
	case "x-svc-event-id":
		return "X-Svc-Event-Id"
	case "x-svc-delivery-id":
		return "X-Svc-Delivery-Id"
	}
	return http.CanonicalHeaderKey(name)
}

const userAgent = "Svc-Webhooks/2"

// Message is an event as endpoints get it.
type Message struct {
	EventID, EventType string
	Body               []byte // the envelope
}

// Headers returns the headers, in lower case, of a try at a delivery: try is its id, at
// its time, and the body is signed with each of secrets.
func (m Message) Headers(try string, at time.Time, secrets ...string) map[string]string {
	return map[string]string{
		"content-type":      "application/json",
		"user-agent":        userAgent,
		"x-svc-signature":   signature.Sign(at, m.Body, secrets...),
		"x-svc-timestamp":   strconv.FormatInt(at.Unix(), 10),
		"x-svc-event":       m.EventType,
		"x-svc-event-id":    m.EventID,
		"x-svc-delivery-id": try,
	}
}
