package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/rollout"
	"partneredge/store"
	"partneredge/store/central/fleet"
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
func (a *api) promoteRelease(r *http.Request, in adminapi.NewRollout, v *validator) (answer, error) {
	percent := int(v.between("percent", in.Percent, 1, 100, 100))
	plan := store.Rollout{
		Stages: v.stages("stages", in.Stages),
		Pause:  time.Duration(v.between("pause_seconds", in.PauseSeconds, 0, int64(maxPause/time.Second), int64(defaultPause/time.Second))) * time.Second,
		Canary: int(v.between("canary_percent", in.CanaryPercent, 0, 99, 0)),
	}
	if err := v.err(); err != nil {
		return answer{}, err
	}
	release, err := a.DB.Release(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	plan.Release, plan.Digest, plan.Version = release.ID, release.Digest, release.Version
	plan.Everywhere = len(in.Nodes) == 0 && len(in.Regions) == 0 && percent == 100
	targets, err := a.targets(v, in.Nodes, in.Regions)
	if err != nil {
		return answer{}, err
	}
	begun, err := a.Rollouts.Begin(r.Context(), plan, targets, percent)
	if err != nil {
		return answer{}, rolloutProblem(err)
	}
	return created(a.toRollout(begun), nil)
}

// stages are percentages that rise to 100.
func (v *validator) stages(field string, percentages []int64) []int {
	if len(percentages) == 0 {
		percentages = defaultStages[:]
	}
	stages := make([]int, 0, len(percentages))
	last := int64(0)
	for _, percent := range percentages {
		if percent <= last || percent > 100 {
			last = 0
			break
		}
		last = percent
		stages = append(stages, int(percent))
	}
	if last != 100 {
		v.fail(field, "invalid", field+" must be percentages that rise to 100, such as [1, 10, 50, 100]")
	}
	return stages
}

// targets are the nodes of an id or a name among names, and of the regions; all,
// where neither is given.
func (a *api) targets(v *validator, names, regions []string) (nodes []store.Node, err error) {
	found := make(map[string]bool)
	for _, at := range a.Nodes.Enrolled() {
		n := at.Node
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
			v.fail("nodes", "unknown", fmt.Sprintf("there is no node %q", name))
		}
	}
	for _, region := range regions {
		if !found["region "+region] {
			v.fail("regions", "unknown", fmt.Sprintf("there is no node in a region %q", region))
		}
	}
	return nodes, v.err()
}

// rollbackRelease ends the rollout of a release that is under way, or undoes it
// where it was the last: its nodes run again what they ran before.
func (a *api) rollbackRelease(r *http.Request) (answer, error) {
	release, err := a.DB.Release(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	rolled, err := a.Rollouts.RollBack(r.Context(), release.ID)
	if err != nil {
		return answer{}, rolloutProblem(err)
	}
	return ok(a.toRollout(rolled), nil)
}

// rolloutProblem maps an error of package rollout.
func rolloutProblem(err error) error {
	for kind, reason := range map[error]string{
		rollout.ErrNoNodeConnected: "no_node_connected", rollout.ErrNotRolledOut: "not_rolled_out",
		fleet.ErrRolloutUnderWay: "rollout_under_way",
	} {
		if errors.Is(err, kind) {
			return &problem{Kind: kindConflict, Reason: reason, Detail: strings.TrimPrefix(kind.Error(), store.ErrConflict.Error()+": ")}
		}
	}
	return err
}
