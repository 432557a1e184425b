package admin

import (
	"time"

	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

type rolloutView struct {
	ID         string            `json:"id"`
	Release    string            `json:"release_id"`
	Digest     string            `json:"digest"`
	Version    string            `json:"version"`
	State      string            `json:"state"`
	Reason     string            `json:"reason"` // why it was rolled back
	Stages     []int             `json:"stages"`
	Stage      int               `json:"stage"` // percent of the nodes that it has reached
	Canary     int               `json:"canary_percent"`
	Trying     bool              `json:"trying"` // the stage's nodes give it canary_percent yet
	Pause      float64           `json:"pause_seconds"`
	Everywhere bool              `json:"everywhere"`
	Since      stamp             `json:"since"` // when the step's nodes all served; null before
	CreatedAt  stamp             `json:"created_at"`
	UpdatedAt  stamp             `json:"updated_at"`
	Serving    int               `json:"serving"` // nodes that answer by the release
	Nodes      []rolloutNodeView `json:"nodes"`
}

type rolloutNodeView struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Region    string `json:"region"`
	Connected bool   `json:"connected"`
	Before    string `json:"before"` // digest; "" the modules of its own disk
	Percent   int    `json:"percent"`
	// State is waiting, or how far the node is: fetching, preparing, smoke, ready,
	// serving, refused, failed, back.
	State    string `json:"state"`
	Reason   string `json:"reason"`
	Requests uint64 `json:"requests"` // answered by the release since it was opened there
	Errors   uint64 `json:"errors"`
	Failures uint64 `json:"failures"`
}

func viewRollout(r store.Rollout, nodes *replication.Presence) rolloutView {
	v := rolloutView{
		ID: r.ID, Release: r.Release, Digest: r.Digest, Version: r.Version, State: string(r.State), Reason: r.Reason,
		Stages: r.Stages, Stage: r.Stages[r.Stage], Canary: r.Canary, Trying: r.Trying, Pause: float64(r.Pause) / float64(time.Second),
		Everywhere: r.Everywhere, Since: stamp(r.Since), CreatedAt: stamp(r.CreatedAt), UpdatedAt: stamp(r.UpdatedAt),
		Nodes: make([]rolloutNodeView, 0, len(r.Nodes)),
	}
	reports := nodes.Enrolled()
	for _, n := range r.Nodes {
		one := viewRolloutNode(r, n, reports[n.ID])
		node := nodes.Report(n.ID).Node // a revoked one has a name, and no report
		one.Name, one.Region = node.Name, node.Region
		if one.State == "serving" {
			v.Serving++
		}
		v.Nodes = append(v.Nodes, one)
	}
	return v
}

func viewRolloutNode(r store.Rollout, n store.RolloutNode, at replication.Report) rolloutNodeView {
	v := rolloutNodeView{ID: n.ID, Connected: at.Connected && at.Status.Running != nil, Before: n.Before, State: "waiting"}
	var counts *wire.ReleaseCounts
	running, trial := at.Status.Running, at.Status.Candidate
	switch {
	case trial != nil && trial.Digest == r.Digest && trial.Rollout == r.ID:
		v.State, v.Reason, v.Percent, counts = string(trial.State), trial.Reason, trial.Percent, trial.Counts
		if trial.State == wire.ReleaseReady && trial.Percent > 0 {
			v.State = "serving"
		}
	case running != nil && running.Digest == r.Digest:
		v.State, v.Percent, counts = "serving", 100, running.Counts
	case r.State == store.RollingBack || r.State == store.RolledBack:
		v.State = "back"
	}
	if counts != nil {
		v.Requests, v.Errors, v.Failures = counts.Requests, counts.Errors, counts.Failed()
	}
	return v
}
