package rollout

import (
	"context"
	"errors"

	"partneredge/store"
)

// Errors of decisions.
var (
	ErrNoNodeConnected = errors.New("none of these nodes is connected")
	ErrNodeUnknown     = errors.New("it is not known what some of these nodes run: connect them first, or choose others")
	ErrNotRolledOut    = errors.New("this release is not being rolled out, nor is it the last that was")
)

// Begin begins to roll a release out to percent of the targets. r names the
// release, its stages, pause and canary percentage. A node of which neither is known
// what it runs nor was decided what it is to run is left out, since nobody could say what it
// is to go back to, and refused where it is one of some that were chosen.
func (c *Controller) Begin(ctx context.Context, r store.Rollout, targets []store.Node, percent int) (store.Rollout, error) {
	reports := c.config.Nodes.Enrolled()
	connected := func(id string) bool { return reports[id].Connected && reports[id].Status.Running != nil }
	decided, err := c.config.DB.NodeReleases(ctx)
	if err != nil {
		return r, err
	}
	_, all := decided[""]
	up, unknown := 0, false
	for _, n := range targets {
		node := store.RolloutNode{ID: n.ID}
		if running := reports[n.ID].Status.Running; running != nil {
			node.Before = running.Digest // unless something else is decided
		} else if _, own := decided[n.ID]; !own && !all {
			unknown = true
			continue
		}
		if connected(n.ID) {
			up++
		}
		r.Nodes = append(r.Nodes, node)
	}
	switch {
	case up == 0:
		return r, ErrNoNodeConnected
	case unknown && !r.Everywhere && percent == 100:
		return r, ErrNodeUnknown
	}
	sortNodes(r.Digest, r.Nodes, connected)
	r.Nodes = r.Nodes[:store.PartOf(len(r.Nodes), percent)]
	begin(&r, connected)
	return c.config.DB.AddRollout(ctx, r)
}

// RollBack ends the rollout of a release that is under way, or undoes it where it
// was the last: its nodes run again what they ran before. One that goes back already is
// returned as it is.
func (c *Controller) RollBack(ctx context.Context, release string) (store.Rollout, error) {
	for {
		last, err := c.config.DB.LastRollout(ctx)
		if err != nil {
			return last, err
		}
		switch {
		case last.Release != release || last.State == store.RolledBack:
			return last, ErrNotRolledOut
		case last.State == store.RollingBack:
			return last, nil
		}
		rollBack(&last, "by an operator", c.config.DB.Now())
		next, stepped, err := c.config.DB.StepRollout(ctx, last)
		if err != nil {
			return next, err
		}
		if stepped { // else the rollout has taken a step meanwhile
			return next, nil
		}
	}
}
