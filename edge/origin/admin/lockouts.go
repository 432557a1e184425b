package admin

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/edge/wire"
	"partneredge/wasm/network"
)

// listLockouts shows which addresses the nodes have locked out; ?network selects an
// address, or those of a network.
func (a *api) listLockouts(r *http.Request) (answer, error) {
	var req wire.LockoutsRequest
	if text := r.URL.Query().Get("network"); text != "" {
		var good bool
		if req.Network, good = network.Parse(text); !good {
			return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "network_invalid", Detail: "network must be an address or a network such as 192.0.2.0/24"}
		}
	}
	list := adminapi.Lockouts{Items: []adminapi.Lockout{}, Unreached: []adminapi.UnreachedNode{}}
	now := a.Now()
	for _, at := range a.Lockouts(r.Context(), req) {
		if at.Err != nil {
			list.Unreached = append(list.Unreached, unreached(at.Node, at.Err))
			continue
		}
		list.Total += at.Reply.All
		for _, one := range at.Reply.Lockouts {
			list.Items = append(list.Items, adminapi.Lockout{
				Address: one.Address, NodeID: at.Node.ID, Node: at.Node.Name, Region: at.Node.Region,
				Until: stamp(now.Add(time.Duration(one.LeftMS) * time.Millisecond)),
			})
		}
	}
	slices.SortFunc(list.Items, func(a, b adminapi.Lockout) int {
		return cmp.Or(b.Until.Compare(a.Until.Time), cmp.Compare(a.Address, b.Address), cmp.Compare(a.NodeID, b.NodeID))
	})
	sortUnreached(list.Unreached)
	return ok(list, nil)
}

// clearLockouts ends lockouts at every node that can be asked. The audit log is
// written first: it holds what was asked for, whatever the nodes make of it.
func (a *api) clearLockouts(r *http.Request, in adminapi.LockoutSelection, v *input.Validator) (answer, error) {
	req := wire.LockoutsRequest{Clear: true}
	all, target := in.All != nil && *in.All, "every address"
	switch {
	case all && in.Network != nil:
		v.Fail("all", "invalid", "network and all exclude each other")
	case !all:
		target = v.Text("network", in.Network, 64)
		var good bool
		if req.Network, good = network.Parse(target); !good {
			v.Fail("network", "invalid", "network must be an address or a network such as 192.0.2.0/24")
			break
		}
		target = network.Text(req.Network)
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	if err := a.DB.Audit(r.Context(), "lockout.clear", target, nil); err != nil {
		return answer{}, err
	}
	out := adminapi.ClearedLockouts{Unreached: []adminapi.UnreachedNode{}}
	for _, at := range a.Lockouts(r.Context(), req) {
		out.Cleared += at.Reply.Cleared
		if at.Err != nil {
			out.Unreached = append(out.Unreached, unreached(at.Node, at.Err))
		}
	}
	sortUnreached(out.Unreached)
	return ok(out, nil)
}
