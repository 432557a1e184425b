package replication

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/store/ratelimit"
	"partneredge/store/signal"
)

// reporter reports to the origin which rate-limit tokens the node has spent, and
// applies the shares that the origin answers with. Requests only note a key.
type reporter struct {
	Config
	shares      chan *nats.Msg
	urgentNoted signal.Signal // urgent is not empty
	reconnected signal.Signal

	mu     sync.Mutex
	urgent map[string]struct{} // keys to report at once
	keys   map[string]struct{} // keys to report at the next tick

	unconfirmed map[string]*unconfirmed // by key; of run alone
	usage       *usage
}

// unconfirmed is a report of a key that the origin has not answered.
type unconfirmed struct {
	due   time.Time // when it is sent again
	tries int
}

const (
	reportInterval = 100 * time.Millisecond
	maxReportKeys  = 1000 // in one message
	maxReports     = 5    // messages in one interval
	// reportAgain is the time after which a report without an answer is sent again.
	// It doubles after each time, three times.
	reportAgain = time.Second
	// reconnectSpread is the time over which nodes that reconnect together begin to
	// report.
	reconnectSpread = 500 * time.Millisecond
	// maxShares bounds the messages with shares that wait. Others are dropped, and
	// come again.
	maxShares = 1024
)

// newReporter returns a reporter that has yet to report what the origin did not
// confirm before the last stop.
func newReporter(cfg Config) (*reporter, error) {
	r := &reporter{
		Config: cfg, shares: make(chan *nats.Msg, maxShares),
		urgentNoted: signal.New(), reconnected: signal.New(),
		urgent: map[string]struct{}{}, keys: map[string]struct{}{}, unconfirmed: map[string]*unconfirmed{},
	}
	r.usage = &usage{now: cfg.Now, warnings: logging.New(cfg.Log), hash: func(keyID string) string {
		hash, _, _ := cfg.Store.Keys.Find(keyID)
		return hash
	}}
	keys, err := r.Store.Buckets.Unacked()
	for _, id := range keys {
		r.keys[id] = struct{}{}
	}
	return r, err
}

// note marks a key to be reported. It never blocks.
func (r *reporter) note(keyID string, when ratelimit.Urgency) {
	if when == ratelimit.NoReport {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if when != ratelimit.ReportNow {
		r.keys[keyID] = struct{}{}
		return
	}
	if len(r.urgent) == 0 { // waking run for each request would cost as much as a request
		r.urgentNoted.Send()
	}
	r.urgent[keyID] = struct{}{}
}

// run reports until ctx ends, and then once more.
func (r *reporter) run(ctx context.Context) {
	tick := time.Tick(reportInterval)
	resume := time.Time{} // nothing is reported before
	for {
		all := false
		select {
		case <-ctx.Done():
			for r.report(true) {
			}
			for report := range r.usage.rest {
				if r.sendUsage(report) != nil {
					break
				}
			}
			return
		case m := <-r.shares:
			r.apply(m)
			continue
		case <-r.reconnected:
			resume = time.Now().Add(rand.N(reconnectSpread))
			for _, u := range r.unconfirmed {
				u.due, u.tries = resume, 0
			}
			r.usage.reconnected()
			continue
		case <-r.urgentNoted:
		case <-tick:
			all = true
		}
		if !r.Link.Up() || time.Now().Before(resume) {
			continue // what was noted waits for a tick
		}
		for range maxReports {
			if !r.report(all) {
				break
			}
		}
		if !all {
			continue
		}
		if report := r.usage.next(); report != nil {
			_ = r.sendUsage(report) // it is sent again until it is confirmed
		}
	}
}

// sendUsage sends a report of what keys were used for.
func (r *reporter) sendUsage(report *wire.Usage) error {
	return r.Link.Send(wire.VerbSpend, &wire.Spend{Boot: r.Store.Buckets.Boot(), Usage: report})
}

// next returns the keys to report: the urgent ones and, with all, the others and
// those whose report was not confirmed in time.
func (r *reporter) next(all bool) (keys []string) {
	collect := func(from map[string]struct{}) {
		for id := range from {
			if len(keys) == maxReportKeys {
				return
			}
			keys = append(keys, id)
			delete(r.urgent, id)
			delete(r.keys, id)
		}
	}
	r.mu.Lock()
	collect(r.urgent)
	if all {
		collect(r.keys)
	}
	r.mu.Unlock()
	if !all {
		return keys
	}
	repeated, now := 0, time.Now()
	for id, u := range r.unconfirmed {
		if len(keys) == maxReportKeys {
			break
		}
		if !now.Before(u.due) {
			keys = append(keys, id)
			repeated++
		}
	}
	r.Counters.Reports("repeated", repeated)
	return keys
}

// report sends one message: of the urgent keys, or of all that are due. It returns
// whether there may be more.
func (r *reporter) report(all bool) (more bool) {
	keys := r.next(all)
	if len(keys) == 0 {
		return false
	}
	err := r.send(keys)
	if err == nil {
		return len(keys) == maxReportKeys
	}
	r.mu.Lock()
	for _, id := range keys {
		r.keys[id] = struct{}{}
	}
	r.mu.Unlock()
	if r.Link.Up() {
		r.Log.Warn("spending not reported", "keys", len(keys), "err", err)
	}
	return false
}

func (r *reporter) send(keys []string) error {
	if !r.Link.Up() {
		return nats.ErrDisconnected
	}
	reports, err := r.reports(keys)
	if err != nil {
		return err
	}
	if err := r.Link.Send(wire.VerbSpend, &wire.Spend{Boot: r.Store.Buckets.Boot(), Keys: reports}); err != nil {
		return err
	}
	r.Counters.Reports("reported", len(reports))
	now := time.Now()
	for _, id := range keys {
		if _, known := reports[id]; !known {
			delete(r.unconfirmed, id)
			continue
		}
		u := r.unconfirmed[id]
		if u == nil {
			u = new(unconfirmed)
			r.unconfirmed[id] = u
		}
		// The time runs from the first report that was not answered.
		if !now.Before(u.due) {
			u.due = now.Add(reportAgain << u.tries)
			u.tries = min(u.tries+1, 3)
		}
	}
	return nil
}

// reports returns what to report of keys, each with the hash that proves it. A key
// that others took the place of since has none: the origin confirms its report, and
// does not count it.
func (r *reporter) reports(keys []string) (map[string]wire.SpentKey, error) {
	reports, err := r.Store.Buckets.Reports(keys)
	if err != nil {
		return nil, err
	}
	proven := make(map[string]wire.SpentKey, len(reports))
	for id, report := range reports {
		hash, _, _ := r.Store.Keys.Find(id)
		proven[id] = wire.SpentKey{Report: report, KeyHash: []byte(hash)}
	}
	return proven, nil
}

// apply applies the shares in a message of the origin's.
func (r *reporter) apply(m *nats.Msg) {
	var share wire.Share
	if !r.Link.Decode(wire.VerbShare, m.Data, &share) {
		return
	}
	r.usage.confirm(share.Used)
	if share.Boot != r.Store.Buckets.Boot() {
		return // for counters that were lost
	}
	behind, err := r.Store.Buckets.Apply(share.Keys)
	if err != nil {
		r.Log.Error("cannot apply shares", "err", err)
		return
	}
	r.Counters.Reports("shares", len(share.Keys))
	for id := range share.Keys {
		if !behind[id] {
			delete(r.unconfirmed, id)
		}
	}
}
