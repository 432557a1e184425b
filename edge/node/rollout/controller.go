package rollout

import (
	"context"
	"errors"
	"slices"
	"time"

	"partneredge/edge/canary"
	"partneredge/edge/wire"
	"partneredge/host"
)

const (
	judgeInterval = 250 * time.Millisecond
	fetchRetry    = time.Second // after the origin could not be asked
	refusedFirst  = time.Minute // at most, after a settled release was refused
	refusedMost   = 16 * time.Minute
	rememberRetry = time.Second // after it could not be written down what a restart is to run
	standbyWait   = time.Second // for the last requests of a release that is to run again

	// settleDelay is how long after a release was opened the runtime is settled, which takes
	// processor time that a rollout has better uses for.
	settleDelay = 5 * time.Second
)

// opening is a release on its way to the router.
type opening struct {
	digest, rollout string
	candidate       bool // it is opened to be tried
	cancel          context.CancelFunc
}

// opened is the end of an opening.
type opened struct {
	*opening
	deployment *deployment
	err        error
}

// Run obeys orders until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	tick, stopping := time.Tick(judgeInterval), c.stopping
	defer c.settling.Wait()
	c.settle(ctx)
	for ctx.Err() == nil {
		c.judge()
		c.step(ctx)
		if !c.settleAt.IsZero() && !time.Now().Before(c.settleAt) {
			c.settle(ctx)
		}
		select {
		case <-ctx.Done():
		case <-tick:
		case m := <-c.orders:
			var order wire.Order
			if c.cfg.Origin.Decode(wire.VerbRelease, m.Data, &order) {
				c.obey(order)
			}
		case done := <-c.opened:
			c.finish(done)
		case <-stopping:
			stopping, c.stops = nil, true
			if c.opening == nil || !c.opening.candidate { // else step cancels it, and finish ends its trial
				c.endTrial()
			}
		}
	}
	if c.opening != nil {
		c.opening.cancel()
		if done := <-c.opened; done.err == nil {
			done.deployment.leave()
		}
	}
	c.setStandby(nil)
	c.endTrial() // the node is stopped: it does not die of the candidate
}

// obey makes order the one that step goes by. What failed under another one is tried at
// once.
func (c *Controller) obey(order wire.Order) {
	if c.order == nil || *c.order != order {
		c.retryAt = time.Time{}
		c.refused.Reset()
	}
	c.order = &order
}

// beginTrial marks a release as on trial, if it is opened to be tried.
func (c *Controller) beginTrial(o *opening) error {
	if !o.candidate {
		return nil
	}
	return c.store.trials.begin(o.digest, o.rollout)
}

// endTrial removes the mark of the candidate on trial, if there is one.
func (c *Controller) endTrial() {
	if err := c.store.trials.end(); err != nil {
		c.log.Error("a restart may refuse the release on trial", "err", err)
	}
}

// judge withdraws the candidate if it does worse than the running release, and
// ends the trial of one that has answered requests for long enough.
func (c *Controller) judge() {
	routes := c.router.routes.Load()
	if routes.candidate == nil || routes.percent == 0 {
		return
	}
	beside, before := routes.running.counts().Minus(routes.before), routes.before
	if routes.percent == 100 {
		// The running release answers nothing any more. Its earlier answers are of use
		// to compare failures, but not what depends on the present: how long requests
		// take, and whether the origin is away.
		beside, before = wire.ReleaseCounts{}, before.Plus(beside)
	}
	reason := canary.Judge(routes.candidate.counts().Minus(routes.tried), beside, before)
	if reason == "" {
		if time.Since(c.triedSince) >= trialTime {
			c.endTrial()
		}
		return
	}
	c.router.withdraw()
	c.endTrial()
	c.log.Error("release withdrawn", "digest", routes.candidate.digest, "version", routes.candidate.version, "why", reason)
	c.ended(wire.ReleaseFailed, reason)
}

// step does the next thing that the order asks for.
func (c *Controller) step(ctx context.Context) {
	if c.order == nil {
		return
	}
	status := c.candidateStatus()
	c.replaceCandidate(status)
	routes := c.router.routes.Load()
	c.settled = c.settled || c.order.Run == routes.running.digest
	if !time.Now().Before(c.rememberAt) && c.remember(routes.running) {
		c.prune()
	}
	if c.rememberAt.IsZero() {
		c.note(c.order.RolledBack)
	}
	want, needed := c.order.Candidate, c.order.Candidate != "" && routes.candidate == nil && !c.stops
	switch {
	case c.order.Run == routes.running.digest:
		c.mu.Lock()
		c.refusal = nil
		c.mu.Unlock()
	case c.order.Run == c.refusedRun && c.order.Candidate != "": // which may take its place
	default:
		want, needed = c.order.Run, true
	}
	switch {
	case c.opening != nil:
		if !needed || c.opening.digest != want || c.opening.rollout != c.order.Rollout {
			c.opening.cancel() // finish goes on from there
		}
	case !needed:
		if c.order.Candidate == "" && c.candidateStatus() != nil {
			c.setCandidate(nil)
			c.store.giveUp()
			c.prune()
		}
		if routes.candidate != nil && routes.percent != c.order.Percent {
			c.router.try(routes.candidate, c.order.Percent)
			c.updateCandidate(func(s *wire.ReleaseStatus) { s.Percent = c.order.Percent })
		}
	case want != c.order.Run && status != nil && status.Digest == want && status.Rollout == c.order.Rollout && status.State.Ended():
	case time.Now().Before(c.retryAt):
	default:
		c.startOpening(ctx, want)
	}
}

// replaceCandidate takes a candidate that the order does not name from its slot.
func (c *Controller) replaceCandidate(status *wire.ReleaseStatus) {
	candidate := c.router.routes.Load().candidate
	tried := status != nil && status.Digest == c.order.Candidate && status.Rollout == c.order.Rollout
	switch {
	case candidate == nil, candidate.digest == c.order.Candidate && tried:
	case candidate.digest == c.order.Run:
		c.promote(candidate)
	default:
		c.router.withdraw()
		c.endTrial()
		c.log.Info("candidate withdrawn", "digest", candidate.digest)
		c.setCandidate(nil)
		c.prune()
	}
}

// startOpening begins to open a release; finish is called when that has ended.
func (c *Controller) startOpening(ctx context.Context, digest string) {
	within, cancel := context.WithCancel(ctx)
	c.opening = &opening{digest, c.order.Rollout, digest == c.order.Candidate && digest != c.order.Run, cancel}
	var standby *deployment
	if c.standby != nil && c.standby.digest == digest {
		standby, c.standby = c.standby, nil
	}
	c.setCandidate(&wire.ReleaseStatus{Digest: digest, Rollout: c.order.Rollout, State: wire.ReleaseFetching})
	go func(o *opening) { // Run receives its end
		d, err := c.open(within, o, standby)
		if err != nil && within.Err() != nil {
			err = within.Err() // whatever the end of its context looked like to what was opened
		}
		c.opened <- opened{o, d, err}
	}(c.opening)
}

// open fetches, verifies, opens and smoke-tests a release. For one on standby,
// which was verified then, the smoke test is enough. A candidate is marked as on
// trial first.
func (c *Controller) open(ctx context.Context, o *opening, standby *deployment) (*deployment, error) {
	digest := o.digest
	if standby != nil {
		// The smoke test replaces the modules' capabilities: no request may be under way
		// between gate and handler.
		select {
		case <-standby.closed:
			if err := c.beginTrial(o); err != nil {
				standby.modules.close()
				return nil, err
			}
			c.reached(digest, standby.version, wire.ReleaseSmoke)
			return c.loader.smokeTested(ctx, c.loader.deploy(digest, standby.version, standby.modules))
		case <-ctx.Done():
		case <-time.After(standbyWait):
		}
		standby.modules.close()
	}
	if digest == "" {
		return c.loader.openFolder(ctx, nil)
	}
	r, err := c.store.fetch(ctx, digest)
	if err != nil {
		return nil, err
	}
	if err := c.beginTrial(o); err != nil {
		return nil, err
	}
	c.reached(digest, r.Version, wire.ReleasePreparing)
	return c.loader.openRelease(ctx, r, func() { c.reached(digest, r.Version, wire.ReleaseSmoke) })
}

// settle settles the runtime after modules were opened, until ctx ends.
func (c *Controller) settle(ctx context.Context) {
	c.settleAt = time.Time{}
	c.settling.Go(func() { c.cfg.Runtime.Settle(ctx) })
}

// finish puts an opened release into its slot.
func (c *Controller) finish(done opened) {
	c.opening = nil
	done.cancel()
	running := c.order.Run == done.digest && c.router.routes.Load().running.digest != done.digest
	candidate := c.order.Candidate == done.digest && done.digest != "" && !c.stops
	wanted := c.order.Rollout == done.rollout && (running || candidate)
	if done.err == nil {
		c.settleAt = time.Now().Add(settleDelay)
	}
	if done.candidate && (done.err != nil || !wanted) {
		c.endTrial()
	}
	switch {
	case done.err == nil && !wanted:
		done.deployment.leave()
	case done.err == nil && running:
		c.promote(done.deployment)
	case done.err == nil:
		c.router.try(done.deployment, c.order.Percent)
		c.triedSince = time.Now()
		c.log.Info("candidate ready", "digest", done.digest, "version", done.deployment.version, "percent", c.order.Percent)
		c.reached(done.digest, done.deployment.version, wire.ReleaseReady)
		c.updateCandidate(func(s *wire.ReleaseStatus) { s.Percent = c.order.Percent })
	case errors.Is(done.err, context.Canceled):
		c.store.giveUp()
	case errors.Is(done.err, host.ErrUnavailable):
		c.log.Warn("release not fetched yet", "digest", done.digest, "err", done.err)
		c.retryAt = time.Now().Add(fetchRetry)
		c.updateCandidate(func(s *wire.ReleaseStatus) { s.Reason = done.err.Error() })
	default:
		c.log.Error("release refused", "digest", done.digest, "err", done.err)
		c.ended(wire.ReleaseRefused, done.err.Error())
		if !done.candidate { // others run it, so it is this node's own trouble, such as a full disk
			c.refusedRun = done.digest
			c.retryAt = time.Now().Add(c.refused.Next())
		}
	}
}

// promote makes a deployment the running one, also after a restart.
func (c *Controller) promote(d *deployment) {
	before := c.router.routes.Load().running
	c.setStandby(before)
	c.router.run(d)
	c.endTrial()
	c.log.Info("release runs", "digest", d.digest, "version", d.version, "before", before.digest)
	c.settled, c.before, c.rememberAt = true, before.digest, time.Time{}
	c.remember(d)
	c.setCandidate(nil)
	c.prune()
}

// remember writes down what a restart is to run, if that has changed: the running release,
// once it was ordered to be that, and none that was rolled back. If it cannot be written down,
// on a full disk say, step tries again. It reports whether something was written.
func (c *Controller) remember(running *deployment) bool {
	kept := c.store.kept
	next := kept
	if c.settled && kept.Digest != running.digest {
		next = kept.next(running.digest, running.version, c.before)
	}
	next = next.under(*c.order)
	if next.Digest == kept.Digest && slices.Equal(next.RolledBack, kept.RolledBack) {
		return false
	}
	err := c.store.remember(next)
	switch failed := !c.rememberAt.IsZero(); {
	case err == nil && failed:
		c.log.Info("what a restart is to run is written down", "digests", next.toRun())
	case err != nil && !failed:
		c.log.Error("a restart may run another release than is ordered, until this can be written down", "digests", next.toRun(), "err", err)
	}
	c.rememberAt = time.Time{}
	if err != nil {
		c.rememberAt = time.Now().Add(rememberRetry)
	}
	return err == nil
}

// note has the status say that no restart runs what was rolled back.
func (c *Controller) note(rolledBack string) {
	c.mu.Lock()
	changed := c.noted != rolledBack
	c.noted = rolledBack
	c.mu.Unlock()
	if changed {
		c.cfg.Changed()
	}
}

// setStandby keeps the modules of d open, in place of those kept so far; nil: none.
// The modules of the node's own disk are not kept, since there may be others by
// the time that they are to run again.
func (c *Controller) setStandby(d *deployment) {
	if c.standby != nil {
		c.standby.modules.close()
		c.standby = nil
	}
	if d != nil && d.digest != "" {
		d.modules.retain()
		c.standby = d
	}
}

// prune removes releases from the disk that neither the router, the order nor a
// rollback needs.
func (c *Controller) prune() {
	routes := c.router.routes.Load()
	keep := []string{routes.running.digest, c.order.Run, c.order.Candidate}
	if routes.candidate != nil {
		keep = append(keep, routes.candidate.digest)
	}
	if c.opening != nil {
		keep = append(keep, c.opening.digest)
	}
	if err := c.store.prune(keep...); err != nil {
		c.log.Warn("old releases stay on disk", "err", err)
	}
}
