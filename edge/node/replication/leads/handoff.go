package leads

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/logging"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local/outbox"
	"partneredge/store/signal"
	"partneredge/wasm/abi"
)

// Handoff hands the leads of the outbox over to the origin, and removes each once
// the origin has committed it.
type Handoff struct {
	cfg         Config
	warnings    *logging.Limiter
	reconnected signal.Signal

	// Of Run alone:
	batch    link.Portion         // most leads in the next request
	aside    link.Portion         // most of those that were set aside
	deferred map[string]time.Time // when to try leads again that the origin cannot read
	rejected bool                 // leads that were set aside are to be offered again
	left     bool                 // some are set aside

	mu      sync.Mutex
	offered int // how often all leads were offered again
}

const (
	maxBatch      = 200
	maxBatchBytes = wire.MaxPayload / 4
	// deferFor is the time after which a lead that the origin did not take is sent
	// again: an origin of another version may take it.
	deferFor = 10 * time.Minute
)

// NewHandoff returns a Handoff, which hands leads over while it runs.
func NewHandoff(cfg Config) *Handoff {
	return &Handoff{
		cfg: cfg, warnings: logging.New(cfg.Log), reconnected: signal.New(),
		batch: link.NewPortion(maxBatch), aside: link.NewPortion(maxBatch), deferred: map[string]time.Time{}, rejected: true,
	}
}

// Reconnected is called each time that there is a connection: the origin may take what it
// did not take before.
func (h *Handoff) Reconnected() { h.reconnected.Send() }

// Run hands leads over until ctx ends.
func (h *Handoff) Run(ctx context.Context) {
	retry := backoff.New(200*time.Millisecond, 10*time.Second)
	again, due := time.NewTimer(0), true // due: again runs
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.cfg.Store.Outbox.Wake():
		case <-h.reconnected:
			h.rejected = true
		case <-again.C:
			h.rejected, due = true, false
		}
		for more := true; more && ctx.Err() == nil && h.cfg.Link.Up(); {
			var err error
			if more, err = h.handOver(ctx); err != nil {
				more = true
			}
			retry.Wait(ctx, err)
		}
		h.offerRejected(ctx)
		if (h.left || h.cfg.Store.Outbox.Len() > 0) && !due { // new leads do not put it off
			again.Reset(deferFor)
			due = true
		}
	}
}

// handOver is next, and warns of its errors.
func (h *Handoff) handOver(ctx context.Context) (more bool, err error) {
	more, err = h.next(ctx)
	if err != nil && ctx.Err() == nil && !link.Permanent(err) { // of which the link warns
		h.warnings.Warn("leads", "leads not handed over yet", "waiting", h.cfg.Store.Outbox.Len(), "err", err)
	}
	return more, err
}

// next hands over the leads that have waited longest. It reports whether there
// may be more.
func (h *Handoff) next(ctx context.Context) (more bool, err error) {
	now, began := h.cfg.Now(), time.Now()
	items, err := h.cfg.Store.Outbox.Pending(h.batch.Now, maxBatchBytes, func(id string) bool {
		until, waits := h.deferred[id]
		left := until.Sub(now)
		return waits && left > 0 && left <= deferFor // a longer wait is of a clock that was put back
	})
	// Those that the disk does not read, of which the outbox tells, keep no others waiting.
	if len(items) == 0 && errors.Is(err, outbox.ErrMoreBehind) {
		// For as long as the disk took, some seconds at most: the outbox was locked meanwhile,
		// and takes what waits to be added to it now.
		_ = backoff.Pause(ctx, min(time.Since(began), 5*time.Second))
		return true, nil
	}
	if len(items) == 0 {
		return false, err
	}
	sent := make(map[string]outbox.Item, len(items))
	var req wire.LeadsRequest
	for _, it := range items {
		sent[it.ID] = it
		if idOf(it.Body) == it.ID {
			req.Leads = append(req.Leads, h.proven(it.Body))
		} else {
			req.Raw = append(req.Raw, wire.RawLead{ID: it.ID, Body: it.Body})
		}
	}
	offered := h.timesOffered()
	reply, err := h.ask(ctx, &req)
	if errors.Is(err, link.ErrInvalid) {
		h.narrow(sent)
		return true, nil
	}
	if err != nil {
		h.batch.Failed(len(sent), err)
		return true, err
	}
	for _, raw := range req.Raw {
		if reply.Rejected[raw.ID] == "" && !slices.Contains(reply.Committed, raw.ID) { // the origin is an older one
			if reply.Rejected == nil {
				reply.Rejected = make(map[string]string)
			}
			reply.Rejected[raw.ID] = "unreadable"
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.offered != offered {
		return true, nil // the answer may be that of an origin that was put back since
	}
	return true, h.settle(ctx, reply, sent)
}

// OfferAgain marks all leads that were handed over and are still kept as waiting: the
// origin may no longer have them.
func (h *Handoff) OfferAgain(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offered++
	return h.cfg.Store.Outbox.OfferAgain(ctx)
}

// OfferDue tries until ctx ends what OfferAgain could not do.
func (h *Handoff) OfferDue(ctx context.Context) {
	retry := backoff.New(time.Second, time.Minute)
	backoff.Every(ctx, time.Second, func() {
		if h.cfg.Store.Cursor().OfferDue {
			retry.Wait(ctx, h.offerOnceMore(ctx))
		}
	})
}

// offerOnceMore holds mu until the offer is no longer due, so that one which becomes
// due meanwhile stays so. Answers that are under way are the present origin's.
func (h *Handoff) offerOnceMore(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.cfg.Store.Outbox.OfferAgain(ctx); err != nil {
		return err
	}
	return h.cfg.Store.Offered()
}

func (h *Handoff) timesOffered() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.offered
}

// idOf returns the id in a lead's JSON, "" when there is none.
func idOf(body []byte) string {
	var lead struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(body, &lead) != nil {
		return ""
	}
	return lead.ID
}

// proven returns the body of a lead with the hash of its key. An earlier program kept
// leads without it: it is added while the key is held. Without it, the origin keeps
// the lead in its quarantine.
func (h *Handoff) proven(body []byte) []byte {
	var lead store.AcceptedLead
	if bytes.Contains(body, []byte(`"key_hash"`)) || json.Unmarshal(body, &lead) != nil {
		return body
	}
	hash, err := h.cfg.KeyHash(abi.Principal{KeyID: lead.KeyID})
	if err != nil {
		return body
	}
	lead.KeyHash = []byte(hash)
	if with, err := json.Marshal(&lead); err == nil {
		return with
	}
	return body
}

func (h *Handoff) ask(ctx context.Context, req *wire.LeadsRequest) (*wire.LeadsReply, error) {
	within, cancel := context.WithTimeout(ctx, h.cfg.WriteTimeout)
	defer cancel()
	reply := new(wire.LeadsReply)
	err := h.cfg.Link.Ask(within, wire.VerbLeads, req, reply)
	return reply, err
}

// narrow halves the batch until it is the one lead for which the origin refuses
// whole requests, and defers that one.
func (h *Handoff) narrow(sent map[string]outbox.Item) {
	if len(sent) > 1 {
		h.batch.Now = (len(sent) + 1) / 2
		return
	}
	h.batch.Now = maxBatch
	for id := range sent {
		h.deferred[id] = h.cfg.Now().Add(deferFor)
		h.cfg.Log.Error("origin cannot read a lead: it stays in the outbox", "lead", id, "again_in", deferFor)
	}
}

// settle removes the leads that the origin has, and sets aside those that it does
// not take. mu is held.
func (h *Handoff) settle(ctx context.Context, reply *wire.LeadsReply, sent map[string]outbox.Item) error {
	committed := reply.Committed[:0]
	for _, id := range reply.Committed {
		if _, ok := sent[id]; ok {
			committed = append(committed, id)
			delete(h.deferred, id)
		}
	}
	if len(committed) > 0 {
		if err := h.removed(h.cfg.Store.Outbox.Remove(ctx, committed...)); err != nil {
			return err
		}
		h.cfg.Count("committed", len(committed))
	}
	var refused []outbox.Refused
	for id, reason := range reply.Rejected {
		if item, ok := sent[id]; ok {
			refused = append(refused, outbox.Refused{Item: item, Reason: reason})
		}
	}
	if len(refused) > 0 {
		if err := h.setAside(ctx, refused); err != nil {
			return err
		}
	}
	if len(committed)+len(refused) == 0 {
		return fmt.Errorf("%w: origin says nothing of the leads it was given", host.ErrUnavailable)
	}
	h.batch.Answered()
	return nil
}

// removed returns an error of leads that are to leave the outbox, but nil for those that have
// left it all the same: others wait, and what comes again is nothing new to the origin.
func (h *Handoff) removed(err error) error {
	if !errors.Is(err, outbox.ErrUnmarked) {
		return err
	}
	h.warnings.Warn("unmarked", "leads that were handed over may come again after a restart", "err", err)
	return nil
}

// setAside sets leads aside. Those that the disk does not take are deferred, and keep no others
// waiting.
func (h *Handoff) setAside(ctx context.Context, refused []outbox.Refused) error {
	first := refused[0]
	switch err := h.removed(h.cfg.Store.Outbox.SetAside(ctx, refused...)); {
	case err == nil:
		for _, it := range refused {
			delete(h.deferred, it.ID)
		}
		h.left = true
		h.cfg.Count("rejected", len(refused))
		h.warnings.Error("set aside", "leads set aside: origin does not take them", "leads", len(refused), "first", first.ID, "reason", first.Reason)
	case ctx.Err() != nil, errors.Is(err, outbox.ErrClosed):
		return err
	default:
		for _, it := range refused {
			h.deferred[it.ID] = h.cfg.Now().Add(deferFor)
		}
		h.warnings.Warn("aside", "leads that the origin does not take cannot be set aside: they stay in the outbox",
			"leads", len(refused), "first", first.ID, "again_in", deferFor, "err", err)
	}
	return nil
}

// offerRejected hands over the leads that were set aside, since an older origin
// refused them or a newer one had no room, when the origin may take them by now.
func (h *Handoff) offerRejected(ctx context.Context) {
	if !h.rejected || !h.cfg.Link.Up() || ctx.Err() != nil {
		return
	}
	h.rejected, h.left = false, false
	taken, all, err := h.offerLines(ctx)
	if len(taken) > 0 { // also when others are left: the origin has these
		err = errors.Join(err, h.cfg.Store.Outbox.RemoveRejected(taken))
	}
	switch {
	case err != nil && ctx.Err() == nil:
		h.warnings.Warn("rejected", "leads that were set aside not handed over yet", "err", err)
	case len(taken) > 0:
		h.cfg.Log.Info("leads that were set aside handed over", "leads", len(taken), "all", all)
	}
	h.left = h.left || err != nil || !all // new ones may have been set aside meanwhile
}

// offerLines hands over what was set aside, in batches, and returns the lines that the origin
// took, also with an error. all is false when it did not take all of them.
func (h *Handoff) offerLines(ctx context.Context) (taken map[outbox.Line]bool, all bool, err error) {
	taken = map[outbox.Line]bool{}
	var lines []outbox.RejectedItem
	size, left := 0, 0
	send := func() error {
		n, err := h.sendLines(ctx, lines, taken)
		left += n
		lines, size = nil, 0
		return err
	}
	for it, err := range h.cfg.Store.Outbox.Rejected() {
		if err != nil {
			return taken, false, err
		}
		if len(lines) > 0 && (len(lines) >= h.aside.Now || size+len(it.Body) > maxBatchBytes) {
			if err := send(); err != nil {
				return taken, false, err
			}
		}
		lines = append(lines, it)
		size += len(it.Body)
	}
	err = send()
	return taken, left == 0 && err == nil, err
}

// sendLines hands over lines of what was set aside, in smaller batches where the link is slow,
// and after each a batch of the leads that wait, which are not to wait for all of those. It adds
// the lines that the origin took to taken, and returns how many it left.
func (h *Handoff) sendLines(ctx context.Context, lines []outbox.RejectedItem, taken map[outbox.Line]bool) (left int, err error) {
	for len(lines) > 0 {
		now := lines[:min(h.aside.Now, len(lines))]
		var req wire.LeadsRequest
		for _, it := range now {
			req.Raw = append(req.Raw, wire.RawLead{ID: it.ID, Body: h.proven(it.Body)})
		}
		reply, err := h.ask(ctx, &req)
		if err != nil {
			if h.aside.Failed(len(now), err) && ctx.Err() == nil {
				continue
			}
			return left, err
		}
		h.aside.Answered()
		for _, it := range now {
			if slices.Contains(reply.Committed, it.ID) {
				taken[it.Line] = true
			} else {
				left++
			}
		}
		lines = lines[len(now):]
		_, _ = h.handOver(ctx) // Run tries again
	}
	return left, nil
}
