package localwebhook

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"partneredge/edge/webhook"
	"partneredge/edge/webhook/signature"
)

// Relay signs an account's events as deliveries and forwards them. It is for one
// goroutine at a time.
type Relay struct {
	secret  string
	forward string // "": events are only signed
	poster  *Poster
	seen    map[string]bool // ids of events
}

// NewRelay makes a relay that signs with a secret and posts to forward; where that is
// "", it posts nothing.
func NewRelay(secret, forward string) *Relay {
	return &Relay{secret, forward, NewPoster(), make(map[string]bool)}
}

// Close closes the relay's connections.
func (r *Relay) Close() { r.poster.Close() }

// Relayed is an event that a Relay has handled.
type Relayed struct {
	At       time.Time       `json:"at"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Verified bool            `json:"verified"`
	Status   *int            `json:"status"` // of the forward; null without an answer
	Latency  float64         `json:"latency_ms"`
	Error    string          `json:"error,omitempty"`
	Body     json.RawMessage `json:"body"`
}

// Handle signs an event as a delivery, verifies that as a receiver does, and forwards
// it. Of an event that it has handled already, known is true and nothing is done: a
// stream that goes on may repeat some.
func (r *Relay) Handle(ctx context.Context, m webhook.Message) (h Relayed, known bool) {
	if r.seen[m.EventID] {
		return h, true
	}
	if len(r.seen) >= 100_000 { // a stream repeats no event that old
		clear(r.seen)
	}
	r.seen[m.EventID] = true
	t := NewTry(m, time.Now(), r.secret)
	h = Relayed{At: t.At.UTC(), ID: m.EventID, Type: m.EventType, Body: m.Body}
	h.Verified = signature.Verify(t.Headers[strings.ToLower(signature.Header)], m.Body, signature.DefaultTolerance, t.At, r.secret) == nil
	if r.forward != "" {
		done := r.poster.Post(ctx, r.forward, t)
		h.Status, h.Latency, h.Error = done.Status, done.Milliseconds(), done.Error
	}
	return h, false
}
