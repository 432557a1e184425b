package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"partneredge/edge/canary"
	"partneredge/edge/wire"
	"partneredge/host"
)

// releases brings the slots to what the origin orders. It opens one release at a
// time, beside the ones that answer, and puts it into a slot once it has passed
// its smoke test. A candidate that does clearly worse than the running release is
// withdrawn here, whether the origin is there or not.
type releases struct {
	slots *slots
	shop  *workshop
	store *releaseStore
	log   *slog.Logger
	told  func() // has the origin told how the node is, soon

	wake   chan struct{} // holds one: there may be something to do
	opened chan opened

	mu    sync.Mutex // guards what follows
	order *wire.Order
	trial *wire.ReleaseStatus // what is opened, tried, or has failed; nil: nothing

	// Of run alone:
	opening *opening
	resting *lineup   // ran before the one that runs; its modules are kept open for a rollback
	again   time.Time // before then nothing is opened again
}

// opening is a release on its way to a slot.
type opening struct {
	digest, rollout string
	cancel          context.CancelFunc
}

// opened is how that ended.
type opened struct {
	*opening
	lineup *lineup
	err    error
}

// Times of releases.
const (
	judgeEvery = 250 * time.Millisecond
	fetchAgain = time.Second // after the origin could not be asked
	restWait   = time.Second // for the last requests of a release that is to run again
)

func newReleases(slots *slots, shop *workshop, store *releaseStore, c Config, told func()) *releases {
	return &releases{
		slots: slots, shop: shop, store: store, log: c.Log, told: told,
		wake: make(chan struct{}, 1), opened: make(chan opened),
	}
}

// hear takes an order. The last one counts.
func (r *releases) hear(o wire.Order) {
	r.mu.Lock()
	r.order = &o
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run follows orders until ctx ends.
func (r *releases) run(ctx context.Context) {
	tick := time.NewTicker(judgeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		r.judge()
		r.step(ctx)
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-tick.C:
		case done := <-r.opened:
			r.finish(done)
		}
	}
	if r.opening != nil {
		r.opening.cancel()
		if done := <-r.opened; done.err == nil {
			done.lineup.leave()
		}
	}
	r.rest(nil)
}

// judge withdraws the candidate if it does worse than the running release.
func (r *releases) judge() {
	l := r.slots.now.Load()
	if l.candidate == nil || l.percent == 0 {
		return
	}
	beside, before := l.running.counts().Minus(l.before), l.before
	if l.percent == 100 {
		// Nothing is beside it any more. What was counted earlier tells of failures,
		// and says nothing about how long requests take now.
		beside, before = wire.ReleaseCounts{}, before.Plus(beside)
	}
	why := canary.Judge(l.candidate.counts(), beside, before)
	if why == "" {
		return
	}
	r.slots.withdraw()
	r.log.Error("release withdrawn", "digest", l.candidate.digest, "version", l.candidate.version, "why", why)
	r.ended(wire.ReleaseFailed, why)
}

// step does the next thing that the order asks for.
func (r *releases) step(ctx context.Context) {
	r.mu.Lock()
	order, trial := r.order, r.trial
	r.mu.Unlock()
	if order == nil {
		return
	}
	tried := trial != nil && trial.Digest == order.Candidate && trial.Rollout == order.Rollout
	l := r.slots.now.Load()
	if l.candidate != nil && (l.candidate.digest != order.Candidate || !tried) {
		if l.candidate.digest == order.Run {
			r.promote(l.candidate)
		} else {
			r.slots.withdraw()
			r.log.Info("candidate withdrawn", "digest", l.candidate.digest)
			r.try(nil)
			r.prune()
		}
		l = r.slots.now.Load()
	}
	want, needed := order.Candidate, order.Candidate != "" && l.candidate == nil
	if order.Run != l.running.digest {
		want, needed = order.Run, true
	}
	switch {
	case r.opening != nil:
		if !needed || r.opening.digest != want || r.opening.rollout != order.Rollout {
			r.opening.cancel() // and the rest when it is gone
		}
	case !needed:
		if order.Candidate == "" && trial != nil {
			r.try(nil)
			r.prune()
		}
		if l.candidate != nil && l.percent != order.Percent {
			r.slots.try(l.candidate, order.Percent)
			r.percent(order.Percent)
		}
	case trial != nil && trial.Digest == want && trial.Rollout == order.Rollout && trial.State.Ended():
	case time.Now().Before(r.again):
	default:
		within, cancel := context.WithCancel(ctx)
		r.opening = &opening{want, order.Rollout, cancel}
		one := r.opening
		var resting *lineup
		if r.resting != nil && r.resting.digest == want {
			resting, r.resting = r.resting, nil
		}
		r.try(&wire.ReleaseStatus{Digest: want, Rollout: order.Rollout, State: wire.ReleaseFetching})
		go func() { // run receives its end
			l, err := r.open(within, want, resting)
			r.opened <- opened{one, l, err}
		}()
	}
}

// open fetches, verifies, prepares and smoke-tests a release. For one whose
// modules are kept open, which was verified then, the last is enough.
func (r *releases) open(ctx context.Context, digest string, resting *lineup) (*lineup, error) {
	if resting != nil {
		// The smoke test puts its modules into a world of their own: no request may
		// be left in them.
		select {
		case <-resting.closed:
			r.reached(digest, resting.version, wire.ReleaseSmoke)
			return r.shop.smoked(ctx, r.shop.lineUp(digest, resting.version, resting.crew))
		case <-ctx.Done():
		case <-time.After(restWait):
		}
		resting.release()
	}
	if digest == "" {
		return r.shop.openFolder(ctx, nil)
	}
	release, err := r.store.fetch(ctx, digest)
	if err != nil {
		return nil, err
	}
	r.reached(digest, release.Version, wire.ReleasePreparing)
	return r.shop.openRelease(ctx, release, func() { r.reached(digest, release.Version, wire.ReleaseSmoke) })
}

// finish puts what was opened into its slot.
func (r *releases) finish(done opened) {
	r.opening = nil
	done.cancel()
	r.mu.Lock()
	order := r.order
	r.mu.Unlock()
	asRunning := order.Run == done.digest && r.slots.now.Load().running.digest != done.digest
	asCandidate := order.Candidate == done.digest && done.digest != ""
	switch wanted := order.Rollout == done.rollout && (asRunning || asCandidate); {
	case done.err == nil && !wanted:
		done.lineup.leave()
	case done.err == nil && asRunning:
		r.promote(done.lineup)
	case done.err == nil:
		r.slots.try(done.lineup, order.Percent)
		r.log.Info("candidate ready", "digest", done.digest, "version", done.lineup.version, "percent", order.Percent)
		r.reached(done.digest, done.lineup.version, wire.ReleaseReady)
		r.percent(order.Percent)
	case errors.Is(done.err, context.Canceled):
	case errors.Is(done.err, host.ErrUnavailable):
		r.log.Warn("release not fetched yet", "digest", done.digest, "err", done.err)
		r.again = time.Now().Add(fetchAgain)
		r.waits(done.err.Error())
	default:
		r.log.Error("release refused", "digest", done.digest, "err", done.err)
		r.ended(wire.ReleaseRefused, done.err.Error())
	}
}

// promote makes a lineup the running one, now and after a restart.
func (r *releases) promote(l *lineup) {
	before := r.slots.now.Load().running
	r.rest(before)
	r.slots.run(l)
	r.log.Info("release runs", "digest", l.digest, "version", l.version, "before", before.digest)
	if err := r.store.remember(l.digest, l.version, before.digest); err != nil {
		r.log.Error("a restart will run the release before this one", "digest", l.digest, "err", err)
	}
	r.try(nil)
	r.prune()
}

// rest keeps the modules of a lineup open in place of those that were kept; nil:
// none. Nor are those of the node's own disk, which may have others by the time
// that it is to run again.
func (r *releases) rest(l *lineup) {
	if r.resting != nil {
		r.resting.release()
		r.resting = nil
	}
	if l != nil && l.digest != "" {
		l.hold()
		r.resting = l
	}
}

// prune removes releases from the disk, but the running one and those before it
// that are kept, to which a rollback goes, and what is ordered or on its way.
func (r *releases) prune() {
	l := r.slots.now.Load()
	keep := []string{l.running.digest}
	if l.candidate != nil {
		keep = append(keep, l.candidate.digest)
	}
	if r.opening != nil {
		keep = append(keep, r.opening.digest)
	}
	r.mu.Lock()
	if r.order != nil {
		keep = append(keep, r.order.Run, r.order.Candidate)
	}
	r.mu.Unlock()
	if err := r.store.prune(keep...); err != nil {
		r.log.Warn("old releases stay on disk", "err", err)
	}
}

// try changes what the origin is told of the trial, and tells it soon.
func (r *releases) try(trial *wire.ReleaseStatus) {
	r.mu.Lock()
	r.trial = trial
	r.mu.Unlock()
	r.told()
}

func (r *releases) change(how func(*wire.ReleaseStatus)) {
	r.mu.Lock()
	if r.trial != nil {
		trial := *r.trial
		how(&trial)
		r.trial = &trial
	}
	r.mu.Unlock()
	r.told()
}

func (r *releases) reached(digest, version string, state wire.ReleaseState) {
	r.change(func(s *wire.ReleaseStatus) {
		if s.Digest == digest {
			s.Version, s.State, s.Reason = version, state, ""
		}
	})
}

func (r *releases) waits(why string) { r.change(func(s *wire.ReleaseStatus) { s.Reason = why }) }

func (r *releases) percent(percent int) {
	r.change(func(s *wire.ReleaseStatus) { s.Percent = percent })
}

func (r *releases) ended(state wire.ReleaseState, why string) {
	r.change(func(s *wire.ReleaseStatus) { s.State, s.Reason, s.Percent = state, why, 0 })
}

// status is what the origin is told.
func (r *releases) status() (running, candidate *wire.ReleaseStatus) {
	l := r.slots.now.Load()
	counts := l.running.counts()
	running = &wire.ReleaseStatus{Digest: l.running.digest, Version: l.running.version, Counts: &counts}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trial == nil {
		return running, nil
	}
	trial := *r.trial
	if l.candidate != nil && l.candidate.digest == trial.Digest {
		counts := l.candidate.counts()
		trial.Counts = &counts
	}
	return running, &trial
}
