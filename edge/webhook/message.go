package webhook

import (
	"strconv"
	"time"

	"partneredge/edge/webhook/signature"
)

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
