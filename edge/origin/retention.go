package origin

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"partneredge/store/central"
)

// Times and sizes of retention.
const (
	defaultRetention = 30 * 24 * time.Hour
	retentionEvery   = 10 * time.Minute
	retentionSlice   = 500                    // deliveries, and events, in one transaction
	retentionPause   = 100 * time.Millisecond // between two, for the writes of others
)

// retention drops deliveries that ended long ago, with their tries and events.
// Origins that share a database all do it: what one has dropped the next does
// not find.
type retention struct {
	db   *central.DB
	keep time.Duration
	now  func() time.Time
	log  *slog.Logger

	cancel context.CancelFunc
	loop   sync.WaitGroup
}

// startRetention returns nil when deliveries are kept for good.
func startRetention(c Config) *retention {
	if c.DeliveryRetention <= 0 {
		return nil
	}
	running, cancel := context.WithCancel(context.Background())
	r := &retention{db: c.DB, keep: c.DeliveryRetention, now: c.DB.Now, log: c.Log, cancel: cancel}
	r.loop.Go(func() { r.run(running, retentionEvery) })
	return r
}

func (r *retention) stop() {
	r.cancel()
	r.loop.Wait()
}

// run drops what is old now, and again and again until ctx ends.
func (r *retention) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		dropped, err := r.drop(ctx)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("dropping old deliveries", "err", err)
		}
		if dropped > 0 {
			r.log.Info("dropped old deliveries and events", "rows", dropped)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// drop all that is old, slice by slice.
func (r *retention) drop(ctx context.Context) (dropped int, err error) {
	pause := time.NewTicker(retentionPause)
	defer pause.Stop()
	for {
		n, err := r.db.PruneDeliveries(ctx, r.now().Add(-r.keep), retentionSlice)
		dropped += n
		if err != nil || n == 0 {
			return dropped, err
		}
		select {
		case <-ctx.Done():
			return dropped, ctx.Err()
		case <-pause.C:
		}
	}
}
