package console

import (
	"maps"
	"slices"

	"partneredge/edge/adminapi"
)

// releasesData is the data of the page of releases.
type releasesData struct {
	Releases []adminapi.Release
	Last     *adminapi.Rollout // nil: there was none yet
	Earlier  []adminapi.Rollout
	Regions  []string
	Running  []running
}

// running counts the connected nodes that run a version; "" is the modules of
// their own disks.
type running struct {
	Version string
	Nodes   int
}

func releases(v *visit) (view, error) {
	var (
		releases adminapi.List[adminapi.Release]
		rollouts adminapi.List[adminapi.Rollout]
		nodes    adminapi.List[adminapi.Node]
	)
	for from, into := range map[string]any{"/releases" + v.page(): &releases, "/rollouts?limit=10": &rollouts, "/nodes?limit=200": &nodes} {
		if err := v.get(from, into); err != nil {
			return view{}, err
		}
	}
	data := releasesData{Releases: releases.Items}
	if len(rollouts.Items) > 0 {
		data.Last, data.Earlier = &rollouts.Items[0], rollouts.Items[1:]
	}
	regions := make(map[string]bool)
	for _, n := range nodes.Items {
		if !n.RevokedAt.IsZero() {
			continue
		}
		regions[n.Region] = true
		if !n.Connected || n.Status == nil || n.Status.Running == nil {
			continue
		}
		version := n.Status.Running.Version
		at := slices.IndexFunc(data.Running, func(one running) bool { return one.Version == version })
		if at < 0 {
			at = len(data.Running)
			data.Running = append(data.Running, running{Version: version})
		}
		data.Running[at].Nodes++
	}
	data.Regions = slices.Sorted(maps.Keys(regions))
	return view{page: "releases", Title: "Releases", Section: "releases", Data: data, Next: v.next(releases.NextCursor)}, nil
}
