// Package deliveries keeps the webhook deliveries of events. One table is their
// queue and their log at once, so nothing can be in one and not the other.
//
// A delivery is made in the transaction of its event (Batch.FanOut). A sender gets
// it right after the commit when its Claimer accepts it, or else claims it
// (ClaimDeliveries), tries it, and records the outcome (RecordOutcomes). The log
// lists deliveries and their attempts until PruneDeliveries removes them.
package deliveries

import (
	"log/slog"
	"sync/atomic"

	"partneredge/store/central/db"
)

// Store reads and writes deliveries. It is safe for many goroutines.
type Store struct {
	db      *db.DB
	sealer  Sealer
	log     *slog.Logger
	claimer atomic.Pointer[Claimer]
	version atomic.Uint64 // of endpoints
	waiting waiting

	hastenSlice int // deliveries, as the constant unless a test sets it
}

// New makes the Store of a database.
func New(d *db.DB, s Sealer, log *slog.Logger) *Store {
	return &Store{db: d, sealer: s, log: log, hastenSlice: hastenSlice}
}
