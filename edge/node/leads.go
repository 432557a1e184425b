package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/wasm/abi"
	"partneredge/wasm/typeid"
)

// leads is host.Outbox, and hands over to the origin what it took.
type leads struct {
	outbox  *local.Outbox
	firsts  *local.Firsts
	link    *link
	log     *slog.Logger
	seldom  *logging.Limiter
	now     func() time.Time
	timeout time.Duration
	back    chan struct{} // holds one: the connection is there again

	count func(outcome string, n int) // accepted, committed, rejected

	most     int                  // leads in the next request
	deferred map[string]time.Time // refused as invalid, by themselves; when to try again
}

const (
	leadsAtOnce = 200
	leadBytes   = wire.MaxPayload / 4 // of one request
	// deferFor is how long a lead waits that the origin could make no sense
	// of: an origin of another version may.
	deferFor = 10 * time.Minute
)

// AppendLead implements host.Outbox.
func (l *leads) AppendLead(ctx context.Context, p abi.Principal, frame []byte) error {
	lead, err := leadOf(p, frame)
	if err != nil {
		return fmt.Errorf("keep lead: %w", err)
	}
	if lead.Environment != store.Live {
		return errors.New("keep lead: only leads of a live key are kept")
	}
	body, err := json.Marshal(&lead)
	if err != nil {
		return fmt.Errorf("keep lead: %w", err)
	}
	err = l.outbox.Append(ctx, local.Item{ID: lead.ID, Body: body})
	if errors.Is(err, store.ErrLimit) {
		return fmt.Errorf("keep lead: outbox is full: %w", host.ErrUnavailable)
	}
	if err == nil {
		l.count("accepted", 1)
	}
	return err
}

// LeadOnce implements host.Outbox. The lead's id is derived from what was asked,
// so that a node that lost its memory of it, or another one that is asked as
// well, hands the same lead over once more, which the origin takes once.
func (l *leads) LeadOnce(ctx context.Context, p abi.Principal, once *abi.Once) (abi.Kept, error) {
	made := func() (local.First, error) {
		first := local.First{Digest: once.Digest, ID: onceID(p.KeyID, once, l.now())}
		if p.Environment != abi.EnvLive {
			return first, nil
		}
		lead := once.Lead
		lead.ID = first.ID
		err := l.AppendLead(ctx, p, lead.Append(nil))
		if errors.Is(err, store.ErrConflict) {
			err = nil // it waits already, made a moment earlier
		}
		return first, err
	}
	first, repeated, err := l.firsts.Do(ctx, local.FirstName(p.KeyID, once.Key), made)
	switch {
	case err != nil:
		return abi.Kept{}, err
	case first.Digest != once.Digest:
		return abi.Kept{Outcome: abi.Conflict}, nil
	case repeated:
		return abi.Kept{Outcome: abi.Repeat, ID: first.ID}, nil
	}
	return abi.Kept{Outcome: abi.New, ID: first.ID}, nil
}

// onceID is the same for the same request with the same idempotency key on one
// day (UTC), wherever it is asked. It is another one the next day, when the key
// may be used for another lead.
func onceID(keyID string, once *abi.Once, now time.Time) string {
	day := now.UTC().Truncate(24 * time.Hour)
	h := sha256.New()
	for _, part := range []string{"lead once", keyID, once.Key, once.Digest, day.Format(time.DateOnly)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return typeid.Make("lead", day.UnixMilli(), [10]byte(h.Sum(nil)))
}

// connected is called when there is a connection (again).
func (l *leads) connected() {
	select {
	case l.back <- struct{}{}:
	default:
	}
}

// run hands over until ctx ends.
func (l *leads) run(ctx context.Context) {
	retry := backoff.New(200*time.Millisecond, 10*time.Second)
	l.most = leadsAtOnce
	l.deferred = map[string]time.Time{}
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.outbox.Wake():
		case <-l.back:
		case <-again.C:
		}
		for ctx.Err() == nil && l.link.up() {
			more, err := l.handOver(ctx)
			if err != nil && ctx.Err() == nil {
				if !lasting(err) { // of which the link warns
					l.seldom.Warn("leads", "leads not handed over yet", "waiting", l.outbox.Len(), "err", err)
				}
				again.Reset(retry.Next())
				// What comes meanwhile waits, too.
				select {
				case <-again.C:
					continue
				case <-ctx.Done():
				}
			}
			retry.Reset()
			if !more {
				if len(l.deferred) > 0 {
					again.Reset(deferFor)
				}
				break
			}
		}
	}
}

// handOver gives the origin the leads that have waited longest, and tells
// whether there may be more.
func (l *leads) handOver(ctx context.Context) (more bool, err error) {
	now := l.now()
	items, err := l.outbox.Pending(l.most, leadBytes, func(id string) bool {
		until, waits := l.deferred[id]
		left := until.Sub(now)
		return waits && left > 0 && left <= deferFor // more is of a clock that was put back
	})
	if err != nil || len(items) == 0 {
		return false, err
	}
	byID := make(map[string]local.Item, len(items))
	var req wire.LeadsRequest
	for _, it := range items {
		var lead store.Lead
		if err := json.Unmarshal(it.Body, &lead); err != nil {
			// Nothing else writes to the outbox, so this should never be.
			byID[it.ID] = local.Item{ID: it.ID, Body: []byte("null")}
			if err := l.setAside(ctx, it.ID, "unreadable", byID); err != nil {
				return true, err
			}
			continue
		}
		byID[it.ID] = it
		req.Leads = append(req.Leads, lead)
	}
	if len(req.Leads) == 0 {
		return true, nil
	}
	within, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	var reply wire.LeadsReply
	err = l.link.ask(within, wire.VerbLeads, &req, &reply)
	if errors.Is(err, errRefused) {
		l.narrow(req.Leads)
		return true, nil
	}
	if err != nil {
		return true, err
	}
	return true, l.settle(ctx, &reply, byID)
}

// narrow finds the lead for which the origin refuses a whole request.
func (l *leads) narrow(sent []store.Lead) {
	if len(sent) > 1 {
		l.most = (len(sent) + 1) / 2
		return
	}
	l.most = leadsAtOnce
	l.deferred[sent[0].ID] = l.now().Add(deferFor)
	l.log.Error("origin cannot read a lead: it stays in the outbox", "lead", sent[0].ID, "again_in", deferFor)
}

// settle forgets what the origin has, and sets aside what it will never take.
func (l *leads) settle(ctx context.Context, reply *wire.LeadsReply, sent map[string]local.Item) error {
	committed := reply.Committed[:0]
	for _, id := range reply.Committed {
		if _, ok := sent[id]; ok {
			committed = append(committed, id)
			delete(l.deferred, id)
		}
	}
	if len(committed) > 0 {
		if err := l.outbox.Remove(ctx, committed...); err != nil {
			return err
		}
		l.count("committed", len(committed))
	}
	rejected := 0
	for id, reason := range reply.Rejected {
		if _, ok := sent[id]; !ok {
			continue
		}
		if err := l.setAside(ctx, id, reason, sent); err != nil {
			return err
		}
		rejected++
	}
	if len(committed)+rejected == 0 {
		return fmt.Errorf("%w: origin says nothing of the leads it was given", host.ErrUnavailable)
	}
	l.most = min(leadsAtOnce, 2*l.most)
	return nil
}

func (l *leads) setAside(ctx context.Context, id, reason string, sent map[string]local.Item) error {
	if err := l.outbox.SetAside(ctx, sent[id], reason); err != nil {
		return err
	}
	delete(l.deferred, id)
	l.count("rejected", 1)
	l.log.Error("lead set aside: origin will never take it", "lead", id, "reason", reason)
	return nil
}
