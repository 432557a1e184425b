package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/edge/origin/registry"
	"partneredge/edge/origin/rollout"
	"partneredge/edge/release"
	"partneredge/store"
	"partneredge/store/central/fleet"
)

// createRelease notes what was pushed to the registry as a release that nodes can
// be told to run. The origin holds no keys and judges no signature, which is the
// nodes' to do; that there is one it asks, since no node would run the rest.
func (a *api) createRelease(r *http.Request, in adminapi.NewRelease, v *input.Validator) (answer, error) {
	reference := in.Reference
	if reference == nil {
		reference = in.Digest
	}
	if reference == nil || in.Digest != nil && in.Reference != nil {
		v.Fail("digest", "required", "give either digest or reference")
	} else if in.Digest != nil && release.CheckDigest(*in.Digest) != nil {
		v.Fail("digest", "invalid", "digest must be sha256: and 64 hexadecimal digits")
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	manifest, err := a.DB.Manifest(r.Context(), *reference)
	if err != nil {
		return answer{}, err
	}
	read, err := a.inspect(r.Context(), manifest.Digest)
	if err == nil && len(read.Signers) == 0 {
		err = release.ErrUnsigned
	}
	if err != nil {
		return answer{}, releaseProblem(err)
	}
	noted := store.Release{Version: read.Version, Digest: read.Digest, Size: read.Size()}
	for _, m := range read.Modules {
		noted.Modules = append(noted.Modules, store.ReleaseModule{Name: m.Name, Size: int64(len(m.Wasm))})
	}
	for _, s := range read.Signers {
		noted.Signers = append(noted.Signers, store.ReleaseSigner(s))
	}
	noted, added, err := a.DB.AddRelease(r.Context(), noted)
	return createdIf(added, toRelease(noted), err)
}

// inspect reads all of a release, which may be large: one at a time.
func (a *api) inspect(ctx context.Context, digest string) (*release.Release, error) {
	select {
	case a.inspecting <- struct{}{}:
		defer func() { <-a.inspecting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return release.Inspect(ctx, registry.Source(a.DB), digest)
}

// releaseProblem says why what is in the registry is no release.
func releaseProblem(err error) error {
	for kind, reason := range map[error]string{
		release.ErrUnsigned: "unsigned", release.ErrMalformed: "malformed", release.ErrTampered: "tampered",
		release.ErrTruncated: "truncated", release.ErrNotFound: "part_missing",
	} {
		if errors.Is(err, kind) {
			return &input.Problem{Kind: "invalid_release", Reason: reason, Detail: kind.Error()}
		}
	}
	return err
}

// maxPause bounds the pause of a rollout.
const maxPause = 24 * time.Hour

// defaultStages of a rollout, in percent of the nodes.
var defaultStages = [...]int64{1, 10, 50, 100}

// promoteRelease begins to roll a release out, to all nodes or to those that are
// named; percent takes that many of them.
func (a *api) promoteRelease(r *http.Request, in adminapi.NewRollout, v *input.Validator) (answer, error) {
	percent := int(v.Between("percent", in.Percent, 1, 100, 100))
	plan := store.Rollout{
		Stages: stagesOf(v, in.Stages),
		Pause:  time.Duration(v.Between("pause_seconds", in.PauseSeconds, 0, int64(maxPause/time.Second), int64(adminapi.RolloutPause/time.Second))) * time.Second,
		Canary: int(v.Between("canary_percent", in.CanaryPercent, 0, 99, 0)),
	}
	if err := v.Err(); err != nil {
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

// stagesOf reads percentages that rise to 100.
func stagesOf(v *input.Validator, percentages []int64) []int {
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
		v.Fail("stages", "invalid", "stages must be percentages that rise to 100, such as [1, 10, 50, 100]")
	}
	return stages
}

// targets returns the enrolled nodes whose id or name is among names or whose region is
// among regions, or all of them if both are empty. It notes in v what no node has.
func (a *api) targets(v *input.Validator, names, regions []string) (nodes []store.Node, err error) {
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
			v.Fail("nodes", "unknown", fmt.Sprintf("there is no node %q", name))
		}
	}
	for _, region := range regions {
		if !found["region "+region] {
			v.Fail("regions", "unknown", fmt.Sprintf("there is no node in a region %q", region))
		}
	}
	return nodes, v.Err()
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
		rollout.ErrNodeUnknown:   "node_unknown",
		fleet.ErrRolloutUnderWay: "rollout_under_way",
	} {
		if errors.Is(err, kind) {
			return &input.Problem{Kind: input.KindConflict, Reason: reason, Detail: strings.TrimPrefix(kind.Error(), store.ErrConflict.Error()+": ")}
		}
	}
	return err
}

// listRollouts lists rollouts, with ?nodes=false without their nodes.
func (a *api) listRollouts(r *http.Request) (answer, error) {
	switch r.URL.Query().Get("nodes") {
	case "", "true":
		return page(r, func(p store.Page) ([]store.Rollout, string, error) { return a.DB.Rollouts(r.Context(), p) }, a.toRollout)
	case "false":
		return page(r, func(p store.Page) ([]adminapi.Rollout, string, error) { return a.rolloutHeads(r.Context(), p) },
			func(v adminapi.Rollout) adminapi.Rollout { return v })
	default:
		return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "nodes_invalid", Detail: "nodes must be true or false"}
	}
}

// rolloutHeads lists rollouts without their nodes. Each but the newest changes no more, and is
// read once, for its record is long where there are many nodes. How many nodes serve by it is
// not counted.
func (a *api) rolloutHeads(ctx context.Context, p store.Page) (heads []adminapi.Rollout, next string, err error) {
	revisions, next, err := a.DB.RolloutRevisions(ctx, p)
	if err != nil {
		return nil, "", err
	}
	newest, _, err := a.DB.LastRevision(ctx) // after the list, or one that has just begun would be kept
	if err != nil {
		return nil, "", err
	}
	for _, revision := range revisions {
		if head, known := a.heads.Load(revision); known {
			heads = append(heads, head.(adminapi.Rollout))
			continue
		}
		r, err := a.DB.Rollout(ctx, revision.ID)
		if err != nil {
			return nil, "", err
		}
		head := toRolloutHead(r)
		if r.ID == newest {
			head.Serving = a.toRollout(r).Serving
		} else {
			a.heads.Store(fleet.RolloutRevision{ID: r.ID, Number: r.Revision}, head)
		}
		heads = append(heads, head)
	}
	return heads, next, nil
}
