package replication

import (
	"context"

	"partneredge/edge/wire"
)

// offerRejected hands over the leads that were set aside, since an older origin
// refused them or a newer one had no room, when the origin may take them by now.
func (h *handoff) offerRejected(ctx context.Context) {
	if !h.rejected || !h.Link.Up() || ctx.Err() != nil {
		return
	}
	h.rejected = false
	taken, all, err := h.offerLines(ctx)
	if err == nil && all && taken > 0 {
		err = h.Store.Outbox.RemoveRejected()
	}
	switch {
	case err != nil && ctx.Err() == nil:
		h.warnings.Warn("rejected", "leads that were set aside not handed over yet", "err", err)
	case taken > 0:
		h.Log.Info("leads that were set aside handed over", "leads", taken, "all", all)
	}
	h.left = err != nil || !all
}

// offerLines hands over what was set aside, in batches. all is false when the
// origin did not take all of it.
func (h *handoff) offerLines(ctx context.Context) (taken int, all bool, err error) {
	var req wire.LeadsRequest
	size := 0
	all = true
	send := func() error {
		reply, err := h.ask(ctx, &req)
		committed := make(map[string]bool)
		for _, id := range reply.Committed {
			committed[id] = true
		}
		for _, raw := range req.Raw {
			if committed[raw.ID] {
				taken++
			} else {
				all = false
			}
		}
		req, size = wire.LeadsRequest{}, 0
		return err
	}
	for it, err := range h.Store.Outbox.Rejected() {
		if err != nil {
			return taken, false, err
		}
		if len(req.Raw) == maxBatch || len(req.Raw) > 0 && size+len(it.Body) > maxBatchBytes {
			if err := send(); err != nil {
				return taken, false, err
			}
		}
		req.Raw = append(req.Raw, wire.RawLead{ID: it.ID, Body: h.proven(it.Body)})
		size += len(it.Body)
	}
	if len(req.Raw) > 0 {
		err = send()
	}
	return taken, all && err == nil, err
}
