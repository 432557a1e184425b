package store

import "time"

// RolloutState is the state of a rollout.
type RolloutState string

// States of a rollout. The last two are final, but Done may still be rolled back.
const (
	RollingOut  RolloutState = "rolling_out"
	RollingBack RolloutState = "rolling_back"
	Done        RolloutState = "done"
	RolledBack  RolloutState = "rolled_back"
)

// Active reports whether the rollout is under way.
func (s RolloutState) Active() bool { return s == RollingOut || s == RollingBack }

// Back reports whether the rollout's nodes are to run again what they ran before.
func (s RolloutState) Back() bool { return s == RollingBack || s == RolledBack }

// Rollout brings a release to nodes, stage by stage. There is at most one under
// way.
type Rollout struct {
	ID      string `json:"id"`      // rol_
	Release string `json:"release"` // rel_
	Digest  string `json:"digest"`
	Version string `json:"version"`

	State  RolloutState `json:"state"`
	Reason string       `json:"reason,omitempty"` // why it was rolled back

	// Stages are percentages of the nodes that rise to 100; Pause is how long
	// each step is watched, and Canary the percentage of requests that a node gives
	// the release before it gives it all, 0 for none.
	Stages []int         `json:"stages"`
	Pause  time.Duration `json:"pause"`
	Canary int           `json:"canary,omitempty"`

	// Nodes are listed in the order in which they are reached.
	Nodes []RolloutNode `json:"nodes"`
	// Everywhere means that nodes which are not listed run the release afterwards
	// too. They ran Before, if HadBefore is set, and else what nobody had decided; rolled
	// back, they run Before.
	Everywhere bool   `json:"everywhere,omitempty"`
	Before     string `json:"before,omitempty"`
	HadBefore  bool   `json:"had_before,omitempty"`

	Stage  int  `json:"stage"`            // index into Stages
	Trying bool `json:"trying,omitempty"` // the stage's nodes still give the release Canary percent
	// Since is when all nodes of the step began to serve; zero until they do.
	Since time.Time `json:"since,omitzero"`
	// BackSince is when the nodes were ordered back. Records of earlier versions do not say it.
	BackSince time.Time `json:"back_since,omitzero"`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Revision  int64     `json:"-"` // rises with each step
}

// RolloutNode is a node of a rollout and the digest of the release that it ran
// before, "" for the modules on its own disk.
type RolloutNode struct {
	ID     string `json:"id"`
	Before string `json:"before"`
	// Served means that the node gave the release its share of requests when a step
	// began to be watched. No later step ends without the node.
	Served bool `json:"served,omitempty"`
	// Ordered means that the node was connected when a step reached it, so that it was told to
	// open the release. Records of earlier versions do not say it.
	Ordered bool `json:"ordered,omitempty"`
}

// Reached returns how many of the nodes the given stage covers: its percentage of
// them, rounded up. Stage -1 covers none.
func (r *Rollout) Reached(stage int) int {
	if stage < 0 {
		return 0
	}
	return PartOf(len(r.Nodes), r.Stages[stage])
}

// HeardBack reports whether a node that was heard last at a time, by the clock that all origins
// share, was heard since it was ordered back, or never had to be.
func (r *Rollout) HeardBack(i int, heard time.Time) bool {
	return i >= r.Reached(r.Stage) || !heard.Before(r.BackSince)
}

// PartOf returns how many a percentage of some nodes is, rounded up.
func PartOf(nodes, percent int) int { return (nodes*percent + 99) / 100 }
