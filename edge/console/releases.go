package console

import (
	"maps"
	"net/url"
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
	Proposed string // id of the newest release that was not rolled back; "": none
	// RolledBack has the ids of the releases whose last rollout was rolled back.
	RolledBack map[string]bool
}

// running counts the connected nodes that a version answers most requests of; "" is the
// modules of their own disks.
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
	for from, into := range map[string]any{"/releases" + v.page(): &releases, "/rollouts?limit=200": &rollouts, "/nodes?limit=200": &nodes} {
		if err := v.get(from, into); err != nil {
			return view{}, err
		}
	}
	data := releasesData{Releases: releases.Items}
	if len(rollouts.Items) > 0 {
		data.Last, data.Earlier = &rollouts.Items[0], rollouts.Items[1:min(len(rollouts.Items), 10)]
	}
	data.propose(rollouts.Items)
	for nodes.NextCursor != "" {
		var more adminapi.List[adminapi.Node]
		if err := v.get("/nodes?limit=200&cursor="+url.QueryEscape(string(nodes.NextCursor)), &more); err != nil {
			return view{}, err
		}
		nodes.Items, nodes.NextCursor = append(nodes.Items, more.Items...), more.NextCursor
	}
	regions := make(map[string]bool)
	for _, n := range nodes.Items {
		if !n.RevokedAt.IsZero() {
			continue
		}
		regions[n.Region] = true
		if !n.Connected || n.Release == nil {
			continue
		}
		version := n.Release.Version
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

// propose finds the releases that were rolled back, given the rollouts, newest first, and
// the newest release that was not.
func (d *releasesData) propose(rollouts []adminapi.Rollout) {
	d.RolledBack = map[string]bool{}
	for _, r := range rollouts {
		if _, later := d.RolledBack[r.ReleaseID]; !later {
			d.RolledBack[r.ReleaseID] = r.State == "rolled_back" || r.State == "rolling_back"
		}
	}
	for _, r := range d.Releases {
		if !d.RolledBack[r.ID] {
			d.Proposed = r.ID
			return
		}
	}
}
