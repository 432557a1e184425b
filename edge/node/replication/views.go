package replication

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/places"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/wasm/abi"
)

// views implements host.Views on the replica, which holds the newest of each
// account's data. Pages further back are asked for and not kept. While the origin
// is away or fails at a view, that is served for MaxStale though it is known to have changed.
type views struct {
	*replica
	sync    *synchronizer
	waiting *places.Places[caller] // for the origin
}

// maxWaiting bounds the pages that a caller waits for at a time, and with them the views while
// the origin answers no question for views. Each waits in a sandbox, and an origin that is
// connected and mute would have one caller hold them all.
const maxWaiting = 16

// wait takes a place of the caller's to wait for the origin; leave frees it.
func (v views) wait(p abi.Principal) (leave func(), err error) {
	leave, ok := v.waiting.Take(callerOf(p))
	if !ok {
		return nil, fmt.Errorf("ask origin for a view: %d of the account's requests wait for it already: %w", maxWaiting, host.ErrUnavailable)
	}
	return leave, nil
}

// AppendProfile implements host.Views.
func (v views) AppendProfile(ctx context.Context, dst []byte, p abi.Principal) ([]byte, error) {
	frame, err := v.frame(ctx, store.ChangeProfile, p)
	return append(dst, frame...), err
}

// AppendInsights implements host.Views.
func (v views) AppendInsights(ctx context.Context, dst []byte, p abi.Principal, since int64, limit int) ([]byte, error) {
	frame, err := v.frame(ctx, store.ChangeInsights, p)
	if err != nil {
		return dst, err
	}
	var list abi.Insights
	if err := list.Parse(readOnly(frame)); err != nil {
		return dst, fmt.Errorf("read held insights: %v", err) // not %w: host takes abi.ErrFrame for the module's fault
	}
	list.Items = newer(list.Items, since, min(limit, abi.MaxInsights))
	return list.Append(dst), nil
}

// newer returns the first of items, at most limit, that were created after since.
func newer(items []abi.Insight, since int64, limit int) []abi.Insight {
	n := 0
	for n < len(items) && n < limit && items[n].Created > since {
		n++
	}
	return items[:n]
}

// AppendFirings implements host.Views.
func (v views) AppendFirings(ctx context.Context, dst []byte, p abi.Principal, before int64, limit int) ([]byte, error) {
	limit = min(limit, abi.MaxFirings)
	frame, err := v.frame(ctx, store.ChangeFirings, p)
	if err != nil {
		return dst, err
	}
	var list abi.Firings
	if err := list.Parse(readOnly(frame)); err != nil {
		return dst, fmt.Errorf("read held firings: %v", err) // not %w: host takes abi.ErrFrame for the module's fault
	}
	if older(&list, before, limit) {
		return list.Append(dst), nil
	}
	if before < 0 {
		before = 1 // no firing is as old as that, and the time of the year 1 says that none is given
	}
	reply, err := v.page(ctx, p, wire.ViewRequest{Kind: store.ChangeFirings, Before: store.TimeOf(before), Limit: limit})
	if err != nil {
		return dst, err
	}
	return append(dst, firingsFrame(reply.Firings, reply.More)...), nil
}

// older cuts the list down to at most limit firings that were triggered before
// the given time. It returns false when the list ends before the page does.
func older(list *abi.Firings, before int64, limit int) bool {
	items := list.Items
	for before != 0 && len(items) > 0 && items[0].Triggered >= before {
		items = items[1:]
	}
	switch {
	case len(items) > limit:
		items, list.More = items[:limit], true
	case len(items) < limit && list.More:
		return false
	}
	list.Items = items
	return true
}

// page asks the origin for a page of the principal's account that is not held.
func (v views) page(ctx context.Context, p abi.Principal, req wire.ViewRequest) (*wire.ViewReply, error) {
	v.Counters.Views("page", 1)
	leave, err := v.wait(p)
	if err != nil {
		return nil, err
	}
	defer leave()
	hash, err := v.keyHash(p)
	if err != nil {
		return nil, err
	}
	req.AccountID, req.KeyHash = p.AccountID, []byte(hash)
	within, cancel := context.WithTimeout(ctx, v.ReadTimeout)
	defer cancel()
	reply, err := v.askView(within, req)
	return reply, ofRefused(err)
}

// frame returns the frame of a held view, after fetching it if it must.
func (v views) frame(ctx context.Context, kind store.ChangeKind, p abi.Principal) (string, error) {
	v.sync.state.wait(ctx)
	name := viewName(kind, p.AccountID)
	rec, held := v.Store.Views.Get(name)
	trusted := held && v.sync.trusts(rec)
	if trusted && !rec.Stale() {
		v.Counters.Views("hit", 1)
		v.NoteAge(ctx, v.sync.age())
		return rec.Frame, nil
	}
	if held {
		v.Counters.Views("stale", 1)
	} else {
		v.Counters.Views("miss", 1)
	}
	hash, err := v.keyHash(p)
	if err != nil {
		return "", err
	}
	fresh, err := v.fetchFor(ctx, p, wanted{name, hash})
	// An origin that is heard may fail at this view alone, for as long as nobody mends it.
	if errors.Is(err, host.ErrUnavailable) && trusted && Between(rec.StaleSince(), v.Now()) <= v.MaxStale {
		v.Counters.Views("outage", 1)
		v.NoteAge(ctx, Between(rec.Fetched, v.Now()))
		return rec.Frame, nil
	}
	return fresh.Frame, ofRefused(err)
}

// fetchFor fetches a view for the principal. An origin that answers refuses nobody's burst: its
// answer is the same for all.
func (v views) fetchFor(ctx context.Context, p abi.Principal, w wanted) (local.Record, error) {
	if v.unanswered.Load().Load() {
		leave, err := v.wait(p)
		if err != nil {
			return local.Record{}, err
		}
		defer leave()
	}
	return v.fetch(ctx, w)
}

// ofRefused returns what a refusal of the origin is to a module. ErrRefused is unavailable:
// the gate let the request in, so the change that ended its key is on its way, and the next
// request is answered by it. ErrInvalid is the module's own fault: it made the subscription, or
// the id of one, that is invalid.
func ofRefused(err error) error {
	switch {
	case errors.Is(err, link.ErrRefused):
		return fmt.Errorf("%w: %w", host.ErrUnavailable, err)
	case errors.Is(err, link.ErrInvalid):
		return fmt.Errorf("%w: %w", host.ErrInvalid, err)
	}
	return err
}

// readOnly returns the bytes of s without a copy. Nobody may write to them.
func readOnly(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
