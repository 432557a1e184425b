package origin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"partneredge/store"
)

// Bounds and defaults of a rollout.
const (
	defaultPause = 30 * time.Second
	maxPause     = 24 * time.Hour
)

// defaultStages of a rollout, in percent of the nodes.
var defaultStages = [...]int64{1, 10, 50, 100}

// promoteRelease begins to roll a release out, to all nodes or to those that are
// named; percent takes that many of them.
func (a *admin) promoteRelease(r *http.Request) (answer, error) {
	var in struct {
		Nodes   []string `json:"nodes"`
		Regions []string `json:"regions"`
		Percent *int64   `json:"percent"`
		Stages  []int64  `json:"stages"`
		Pause   *int64   `json:"pause_seconds"`
		Canary  *int64   `json:"canary_percent"`
	}
	if err := decodeOptional(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_rollout"}
	percent := int(c.between("percent", in.Percent, 1, 100, 100))
	rollout := store.Rollout{
		Stages: c.stages("stages", in.Stages),
		Pause:  time.Duration(c.between("pause_seconds", in.Pause, 0, int64(maxPause/time.Second), int64(defaultPause/time.Second))) * time.Second,
		Canary: int(c.between("canary_percent", in.Canary, 0, 99, 0)),
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	release, err := a.db.Release(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	rollout.Release, rollout.Digest, rollout.Version = release.ID, release.Digest, release.Version
	rollout.Everywhere = len(in.Nodes) == 0 && len(in.Regions) == 0 && percent == 100
	targets, err := a.targets(&c, in.Nodes, in.Regions)
	if err != nil {
		return answer{}, err
	}
	if err := a.plan(r.Context(), &rollout, targets, percent); err != nil {
		return answer{}, err
	}
	if rollout, err = a.db.AddRollout(r.Context(), rollout); err != nil {
		return answer{}, err
	}
	a.decided()
	return created(viewRollout(rollout, a.fleet))
}

// stages are percentages that rise to 100.
func (c *checks) stages(field string, v []int64) []int {
	if len(v) == 0 {
		v = defaultStages[:]
	}
	stages := make([]int, 0, len(v))
	last := int64(0)
	for _, percent := range v {
		if percent <= last || percent > 100 {
			last = 0
			break
		}
		last = percent
		stages = append(stages, int(percent))
	}
	if last != 100 {
		c.fail(field, "invalid", field+" must be percentages that rise to 100, such as [1, 10, 50, 100]")
	}
	return stages
}

// targets are the nodes of an id or a name among names, and of the regions; all,
// where neither is given.
func (a *admin) targets(c *checks, names, regions []string) (nodes []store.Node, err error) {
	found := make(map[string]bool)
	for _, n := range a.fleet.enrolled() {
		named := slices.Contains(names, n.ID) || slices.Contains(names, n.Name)
		within := slices.Contains(regions, n.Region)
		found[n.ID], found[n.Name] = true, true
		found["region "+n.Region] = true
		if named || within || len(names) == 0 && len(regions) == 0 {
			nodes = append(nodes, n)
		}
	}
	for _, name := range names {
		if !found[name] {
			c.fail("nodes", "unknown", fmt.Sprintf("there is no node %q", name))
		}
	}
	for _, region := range regions {
		if !found["region "+region] {
			c.fail("regions", "unknown", fmt.Sprintf("there is no node in a region %q", region))
		}
	}
	return nodes, c.err()
}

// plan puts the nodes into a rollout in their turn, each with what it runs until
// then, and sets it to its first step.
func (a *admin) plan(ctx context.Context, r *store.Rollout, targets []store.Node, percent int) error {
	wants, err := a.db.NodeReleases(ctx)
	if err != nil {
		return err
	}
	r.Before, r.HadBefore = wants[""], hasKey(wants, "")
	reports := a.fleet.reports()
	up := 0
	for _, n := range targets {
		before, decided := wants[n.ID]
		if !decided {
			before, decided = r.Before, r.HadBefore
		}
		if s := reports[n.ID].status; !decided && s.Running != nil {
			before = s.Running.Digest
		}
		if reports[n.ID].connected {
			up++
		}
		r.Nodes = append(r.Nodes, store.RolloutNode{ID: n.ID, Before: before})
	}
	if up == 0 {
		return &problem{Kind: kindConflict, Reason: "no_node_connected", Detail: "none of these nodes is connected"}
	}
	inTurn(r.Digest, r.Nodes, func(id string) bool { return reports[id].connected })
	r.Nodes = r.Nodes[:(len(r.Nodes)*percent+99)/100]
	beginning(r)
	return nil
}

func hasKey(m map[string]string, key string) bool {
	_, found := m[key]
	return found
}

// rollbackRelease ends the rollout of a release that is under way, or undoes it
// where it was the last: its nodes run again what they ran before.
func (a *admin) rollbackRelease(r *http.Request) (answer, error) {
	if err := decodeOptional(r, &struct{}{}); err != nil {
		return answer{}, err
	}
	release, err := a.db.Release(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	for {
		last, err := a.db.LastRollout(r.Context())
		if err != nil {
			return answer{}, err
		}
		if last.Release != release.ID || last.State != store.RollingOut && last.State != store.Done {
			return answer{}, &problem{Kind: kindConflict, Reason: "not_rolled_out",
				Detail: "this release is not being rolled out, nor is it the last that was"}
		}
		rollBack(&last, "by an operator")
		next, stepped, err := a.db.StepRollout(r.Context(), last)
		if err != nil {
			return answer{}, err
		}
		if stepped { // else the rollout has taken a step meanwhile
			a.decided()
			return ok(viewRollout(next, a.fleet))
		}
	}
}

func (a *admin) listRollouts(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Rollout, string, error) {
		return a.db.Rollouts(r.Context(), p)
	}, shown(func(o store.Rollout) rolloutView { return viewRollout(o, a.fleet) }))
}

func (a *admin) getRollout(r *http.Request) (answer, error) {
	rollout, err := a.db.Rollout(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(viewRollout(rollout, a.fleet))
}
