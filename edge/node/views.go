package node

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/wasm/abi"
)

// Most items that a view which is held has.
const (
	heldInsights = 50
	heldFirings  = 100
)

// views is host.Views: the newest of an account's data is held and served from
// here; pages further back are asked for, and not kept. While the origin is
// away, what is held is served as it is.
type views struct {
	store  *local.Store
	copies *copies
	follow *follower
	count  func(outcome string) // hit, miss, stale, page, outage
}

// AppendProfile implements host.Views.
func (v *views) AppendProfile(ctx context.Context, dst []byte, p abi.Principal) ([]byte, error) {
	frame, err := v.frame(ctx, store.ChangeProfile, p.AccountID)
	return append(dst, frame...), err
}

// AppendInsights implements host.Views.
func (v *views) AppendInsights(ctx context.Context, dst []byte, p abi.Principal, since int64, limit int) ([]byte, error) {
	if limit > heldInsights {
		reply, err := v.page(ctx, wire.ViewRequest{AccountID: p.AccountID, Kind: store.ChangeInsights, Since: instant(since), Limit: limit})
		if err != nil {
			return dst, err
		}
		return append(dst, insightsFrame(reply.Insights, reply.History)...), nil
	}
	frame, err := v.frame(ctx, store.ChangeInsights, p.AccountID)
	if err != nil {
		return dst, err
	}
	var list abi.Insights
	if err := list.Parse(readOnly(frame)); err != nil {
		return dst, fmt.Errorf("read held insights: %w", err)
	}
	list.Items = newer(list.Items, since, limit)
	return list.Append(dst), nil
}

// newer are the first of items, at most limit, that were created after since.
func newer(items []abi.Insight, since int64, limit int) []abi.Insight {
	n := 0
	for n < len(items) && n < limit && items[n].Created > since {
		n++
	}
	return items[:n]
}

// AppendFirings implements host.Views.
func (v *views) AppendFirings(ctx context.Context, dst []byte, p abi.Principal, before int64, limit int) ([]byte, error) {
	if limit <= heldFirings {
		frame, err := v.frame(ctx, store.ChangeFirings, p.AccountID)
		if err != nil {
			return dst, err
		}
		var list abi.Firings
		if err := list.Parse(readOnly(frame)); err != nil {
			return dst, fmt.Errorf("read held firings: %w", err)
		}
		if older(&list, before, limit) {
			return list.Append(dst), nil
		}
	}
	reply, err := v.page(ctx, wire.ViewRequest{AccountID: p.AccountID, Kind: store.ChangeFirings, Before: instant(before), Limit: limit})
	if err != nil {
		return dst, err
	}
	return append(dst, firingsFrame(reply.Firings, reply.More)...), nil
}

// older cuts the list down to those triggered before before, at most limit.
// It returns false when more would belong there than the list has.
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

// page asks for what is not held.
func (v *views) page(ctx context.Context, req wire.ViewRequest) (*wire.ViewReply, error) {
	v.count("page")
	within, cancel := context.WithTimeout(ctx, v.copies.timeout)
	defer cancel()
	return v.copies.view(within, req)
}

// frame is the frame of the view that is held, once it is.
func (v *views) frame(ctx context.Context, kind store.ChangeKind, account string) (string, error) {
	v.follow.ready(ctx)
	name := viewName(kind, account)
	rec, held := v.store.Views.Get(name)
	trusted := held && v.follow.trusts(rec)
	if trusted && !rec.Stale() {
		v.count("hit")
		noteAge(ctx, v.follow.age())
		return rec.Frame, nil
	}
	if held {
		v.count("stale")
	} else {
		v.count("miss")
	}
	fresh, err := v.copies.fetch(ctx, name)
	if errors.Is(err, host.ErrUnavailable) && trusted {
		v.count("outage")
		noteAge(ctx, v.copies.now().Sub(rec.Fetched))
		return rec.Frame, nil
	}
	return fresh.Frame, err
}

// readOnly is the text's own memory. Frames are parsed from it, never written.
func readOnly(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
