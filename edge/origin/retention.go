package origin

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/store/central"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/idempotency"
	"partneredge/store/central/quarantine"
	"partneredge/store/central/usage"
)

// Retention is the time for which records are kept once they came in, and deliveries once they
// have ended. Less than 0 is for good; 0 is 30 days for Deliveries, and for good for the others.
type Retention struct {
	Deliveries time.Duration
	Firings    time.Duration
	Insights   time.Duration
	Contacts   time.Duration
	Leads      time.Duration
	Audit      time.Duration
}

// Times of retention.
const (
	defaultRetention = 30 * 24 * time.Hour
	retentionEvery   = 10 * time.Minute
)

// retention drops what is old. Origins that share a database all do it: what one
// has dropped the next does not find.
type retention struct {
	clock   *clockJudge
	log     *slog.Logger
	prepare func(context.Context) error // makes room for the records to come
	jobs    []pruning
	empty   func(context.Context) error // takes what was dropped out of the database's log

	cancel context.CancelFunc
	loop   sync.WaitGroup
}

// pruning drops one kind of record. begin begins a round of slices.
type pruning struct {
	what  string
	keep  time.Duration
	begin func() slice
}

// slice removes up to limit rows from before a time and returns how many.
type slice = func(ctx context.Context, before time.Time, limit int) (removed int, err error)

// startRetention starts rounds of retention, one now and one each retentionEvery, until stop.
func startRetention(c Config) *retention {
	running, cancel := context.WithCancel(context.Background())
	r := newRetention(c.DB, c.Retention, c.Log)
	r.cancel = cancel
	r.loop.Go(func() { r.run(running, retentionEvery) })
	return r
}

func newRetention(d *central.DB, keep Retention, log *slog.Logger) *retention {
	width := deliveries.PartitionWidth(cmp.Or(keep.Deliveries, defaultRetention))
	jobs := prunings(d, keep)
	least := retentionAhead * retentionAheadPart
	for _, job := range jobs {
		least = min(least, job.keep)
	}
	// An answer is not repeated after its day, so no clock is judged the more strictly for it.
	jobs = append(jobs, pruning{"answers to idempotency keys", idempotency.TTL, func() slice {
		cursor := new(idempotency.PruneCursor)
		return func(ctx context.Context, before time.Time, limit int) (int, error) {
			return d.PruneAnswers(ctx, before, limit, cursor)
		}
	}})
	return &retention{
		clock: newClockJudge(d, log, least), log: log, jobs: jobs,
		prepare: func(ctx context.Context) error { return d.MakePartitions(ctx, width) },
		empty:   d.EmptyLog,
	}
}

// prunings returns what is to be done, without what is kept for good.
func prunings(d *central.DB, keep Retention) (jobs []pruning) {
	add := func(what string, keep time.Duration, begin func() slice) {
		if keep > 0 {
			jobs = append(jobs, pruning{what, keep, begin})
		}
	}
	records := func(k central.Aging) func() slice {
		return func() slice {
			cursor := new(central.AgingCursor)
			return func(ctx context.Context, before time.Time, limit int) (int, error) {
				return d.PruneRecords(ctx, k, before, limit, cursor)
			}
		}
	}
	add("deliveries and events", cmp.Or(keep.Deliveries, defaultRetention), func() slice {
		cursor := new(deliveries.PruneCursor)
		return func(ctx context.Context, before time.Time, limit int) (int, error) {
			return d.PruneDeliveries(ctx, before, limit, cursor)
		}
	})
	add("partitions of the log", cmp.Or(keep.Deliveries, defaultRetention), func() slice {
		return func(ctx context.Context, before time.Time, _ int) (int, error) {
			dropped, err := d.DropPartition(ctx, before)
			return int(db.Bit(dropped)), err
		}
	})
	if kept := cmp.Or(keep.Deliveries, defaultRetention); kept > 0 {
		// Within a day, a request that is repeated asks for the subscription that it made.
		add("revoked subscriptions", max(kept, idempotency.TTL), records(central.AgingSubscriptions))
	}
	add("firings", keep.Firings, records(central.AgingFirings))
	add("insights", keep.Insights, records(central.AgingInsights))
	add("contacts", keep.Contacts, records(central.AgingContacts))
	add("leads", keep.Leads, records(central.AgingLeads))
	add("leads of the quarantine", keep.Leads, func() slice { return d.DiscardOldLeads })
	add("settled leads of the quarantine", quarantine.Remembered, func() slice { return d.ForgetSettledLeads })
	add("entries of the audit log", keep.Audit, records(central.AgingAudit))
	add("days of the usage of keys", usage.Kept, func() slice { return d.PruneKeyUsage })
	return jobs
}

func (r *retention) stop() {
	r.cancel()
	r.loop.Wait()
}

// run drops what is old now, and again and again until ctx ends.
func (r *retention) run(ctx context.Context, every time.Duration) {
	tick := time.Tick(every)
	for {
		r.round(ctx)
		if err := r.empty(ctx); err != nil && ctx.Err() == nil {
			r.log.Info("what was dropped stays in the database's log for now", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// round drops once what is old, unless the clock is in doubt. A clock in doubt makes no
// partitions either: made for a wrong, later time they would leave all records until then to
// the default partitions. A clock that stays ahead makes them, though it drops nothing yet.
func (r *retention) round(ctx context.Context) {
	now, may, err := r.clock.begin(ctx)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("cannot begin a round of retention", "err", err)
	}
	if err != nil || may == clockDoubted {
		return
	}
	if err := r.prepare(ctx); err != nil && ctx.Err() == nil {
		r.log.Warn("cannot make partitions of the log", "err", err)
	}
	if may != clockTrusted {
		return
	}
	for _, job := range r.jobs {
		before := now.Add(-job.keep)
		if before.UnixMicro() <= 0 { // nothing is from before 1970, and the store takes no such time
			continue
		}
		dropped, err := r.drop(ctx, job, before)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("cannot drop old "+job.what, "err", err)
		}
		if dropped > 0 {
			r.log.Info("dropped old "+job.what, "count", dropped)
		}
	}
}

// drop removes all of a kind that is from before a time, slice by slice.
func (r *retention) drop(ctx context.Context, job pruning, before time.Time) (dropped int, err error) {
	next, size := job.begin(), sliceFirst
	for {
		began := time.Now()
		n, err := next(ctx, before, size)
		dropped += n
		if err != nil || n == 0 {
			return dropped, err
		}
		took := time.Since(began)
		size = nextSlice(size, took)
		// As long for the writes of others as this one has taken.
		if backoff.Pause(ctx, took) != nil {
			return dropped, ctx.Err()
		}
	}
}

// Rows that one transaction removes at most, and how long it may take: the writes of
// others may wait for it.
const (
	sliceFirst = 500
	sliceLeast = 20
	sliceMost  = 5000
	sliceTime  = 25 * time.Millisecond
)

// nextSlice returns how large a slice may be after one that took so long.
func nextSlice(size int, took time.Duration) int {
	switch {
	case took > sliceTime:
		size = int(float64(size) * float64(sliceTime) / float64(took))
	case took < sliceTime/2:
		size *= 2
	}
	return min(max(size, sliceLeast), sliceMost)
}
