// Package leads keeps the leads that a node accepts on its disk until the origin has them.
package leads

import (
	"context"
	"log/slog"
	"time"

	"partneredge/edge/wire"
	"partneredge/store/local"
	"partneredge/wasm/abi"
)

// Config of an Outbox and of a Handoff. Every field is required.
type Config struct {
	Store *local.Store
	Link  Link
	// KeyHash returns the hash of the principal's key.
	KeyHash func(abi.Principal) (string, error)
	// WriteTimeout bounds a request to the origin.
	WriteTimeout time.Duration
	// Count is called with how many leads were accepted, committed or rejected.
	Count func(outcome string, n int)
	Log   *slog.Logger
	Now   func() time.Time
}

// Link is a link.Link. Tests have others.
type Link interface {
	Up() bool
	Ask(ctx context.Context, verb string, req, reply wire.Message) error
}
