package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/deliveries"
)

// enrolNode makes a node and its credentials, which nobody can show again.
func (a *api) enrolNode(r *http.Request, in adminapi.NewNode, v *input.Validator) (answer, error) {
	node := store.Node{Name: v.Text("name", in.Name, input.MaxName), Region: v.Region("region", in.Region), WireVersion: wire.Version}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	node.ID = store.NewID("node", a.DB.Now())
	credentials, publicKey, err := a.Credentials(node.ID, node.Region)
	if err != nil {
		return answer{}, err
	}
	node.PublicKey = publicKey
	if node, err = a.DB.AddNode(r.Context(), node); err != nil {
		return answer{}, err
	}
	a.Nodes.Put(node)
	return created(adminapi.EnrolledNode{Node: a.toNode(node, nil), Credentials: credentials}, nil)
}

// revokeNode voids the node's credentials and ends its connection. What it holds
// it can go on serving until it takes its records for stale.
func (a *api) revokeNode(r *http.Request) (answer, error) {
	node, _, err := a.DB.RevokeNode(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	a.Nodes.Put(node)
	if err := a.Nodes.Refresh(r.Context()); err != nil {
		// It is revoked all the same: its requests are refused, and the next refresh
		// tells NATS.
		a.Log.Warn("cannot end the connection of a revoked node", "node", node.ID, "err", err)
	}
	ids, err := a.releaseIDs(r.Context(), node)
	return ok(a.toNode(node, ids), err)
}

// listNodes lists all nodes, with the releases that they run.
func (a *api) listNodes(r *http.Request) (answer, error) {
	var ids map[string]string
	return page(r, func(p store.Page) (nodes []store.Node, next string, err error) {
		if nodes, next, err = a.DB.Nodes(r.Context(), p); err == nil {
			ids, err = a.releaseIDs(r.Context(), nodes...)
		}
		return nodes, next, err
	}, func(n store.Node) adminapi.Node { return a.toNode(n, ids) })
}

// releaseIDs returns the ids of the releases that some nodes report, by digest. One that the
// origin does not know has none.
func (a *api) releaseIDs(ctx context.Context, nodes ...store.Node) (map[string]string, error) {
	ids := map[string]string{}
	for _, n := range nodes {
		at := a.Nodes.Report(n.ID)
		for _, s := range []*wire.ReleaseStatus{at.Status.Running, at.Status.Candidate} {
			if s != nil && s.Digest != "" {
				ids[s.Digest] = ""
			}
		}
	}
	for digest := range ids {
		release, err := a.DB.ReleaseOf(ctx, digest)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		ids[digest] = release.ID
	}
	return ids, nil
}

// openAPI answers with the description of this API.
func (a *api) openAPI(*http.Request) (answer, error) {
	return ok(json.RawMessage(adminapi.OpenAPI()), nil)
}

// showTraffic shows each region's traffic of the last five minutes.
func (a *api) showTraffic(r *http.Request) (answer, error) {
	log, err := a.DB.ChangesSince(r.Context(), central.Position{}, 1)
	if err != nil {
		return answer{}, err
	}
	v := adminapi.Traffic{StepSeconds: int(replication.TrafficEvery / time.Second), LatestChange: log.Latest, Regions: []adminapi.RegionTraffic{}}
	regions := make(map[string]*adminapi.RegionTraffic)
	for _, at := range a.Nodes.Enrolled() {
		region := regions[at.Node.Region]
		if region == nil {
			region = &adminapi.RegionTraffic{Region: at.Node.Region}
			regions[at.Node.Region] = region
		}
		region.Nodes++
		region.Outbox += at.Status.Outbox // also of nodes that are away, on whose disks they wait
		if at.Connected {
			region.Connected++
			region.ChangesBehind = max(region.ChangesBehind, log.Latest-at.Status.Seq)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		region := regions[name]
		for _, s := range a.Nodes.Traffic(name) {
			region.Points = append(region.Points, adminapi.TrafficPoint{
				At: stamp(s.At), Heard: s.Heard, Requests: s.Requests, Errors: s.Errors, Limited: s.Limited, P50: s.P50, P99: s.P99,
			})
		}
		v.Regions = append(v.Regions, *region)
	}
	return ok(v, nil)
}

// outcomesSince is the age of the oldest deliveries that showOutcomes counts.
const outcomesSince = time.Hour

// showOutcomes counts the newest deliveries by state.
func (a *api) showOutcomes(r *http.Request) (answer, error) {
	since := a.DB.Now().Add(-outcomesSince)
	counts, err := a.DB.CountOutcomes(r.Context(), since)
	if err != nil {
		return answer{}, err
	}
	return ok(adminapi.Outcomes{
		Since: stamp(since), Most: deliveries.CountMost, Pending: counts[store.StatePending],
		Delivered: counts[store.StateDelivered], Dead: counts[store.StateDead], Cancelled: counts[store.StateCancelled],
	}, nil)
}

func unreached(n store.Node, err error) adminapi.UnreachedNode {
	return adminapi.UnreachedNode{NodeID: n.ID, Node: n.Name, Region: n.Region, Reason: err.Error()}
}

func sortUnreached(nodes []adminapi.UnreachedNode) {
	slices.SortFunc(nodes, func(a, b adminapi.UnreachedNode) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Node, b.Node), cmp.Compare(a.NodeID, b.NodeID))
	})
}
