package console

import (
	"maps"
	"net/url"
	"slices"

	"partneredge/edge/adminapi"
)

// releasesData is the data of the page of releases. Its live part has Last and Running.
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
		data     releasesData
	)
	for from, into := range map[string]any{"/releases" + v.page(): &releases, "/rollouts?limit=200&nodes=false": &rollouts} {
		if err := v.get(from, into); err != nil {
			return view{}, err
		}
	}
	if err := data.readLast(v); err != nil {
		return view{}, err
	}
	data.Releases = releases.Items
	data.propose(rollouts.Items)
	if len(rollouts.Items) > 0 {
		data.Earlier = rollouts.Items[1:min(len(rollouts.Items), 10)]
	}
	shown, err := data.shown(v)
	shown.Next = v.next(releases.NextCursor)
	return shown, err
}

// liveReleases reads what the live part shows, many times a minute: the newest rollout
// and what nodes run.
func liveReleases(v *visit) (view, error) {
	var data releasesData
	if err := data.readLast(v); err != nil {
		return view{}, err
	}
	return data.shown(v)
}

// readLast reads the newest rollout with its nodes.
func (d *releasesData) readLast(v *visit) error {
	var last adminapi.List[adminapi.Rollout]
	err := v.get("/rollouts?limit=1", &last)
	if len(last.Items) > 0 {
		d.Last = &last.Items[0]
	}
	return err
}

// shown returns the page, with what the nodes run.
func (d *releasesData) shown(v *visit) (view, error) {
	regions := make(map[string]bool)
	for cursor := ""; ; {
		var nodes adminapi.List[adminapi.Node]
		if err := v.get("/nodes?limit=200"+cursor, &nodes); err != nil {
			return view{}, err
		}
		for _, n := range nodes.Items {
			if n.RevokedAt.IsZero() {
				regions[n.Region] = true
				d.count(n)
			}
		}
		if nodes.NextCursor == "" {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(string(nodes.NextCursor))
	}
	d.Regions = slices.Sorted(maps.Keys(regions))
	return view{page: "releases", Title: "Releases", Section: "releases", Data: *d}, nil
}

// count adds a node to those that run the same, if it is connected.
func (d *releasesData) count(n adminapi.Node) {
	if !n.Connected || n.Release == nil {
		return
	}
	version := n.Release.Version
	at := slices.IndexFunc(d.Running, func(one running) bool { return one.Version == version })
	if at < 0 {
		at = len(d.Running)
		d.Running = append(d.Running, running{Version: version})
	}
	d.Running[at].Nodes++
}

// Lists reports whether the page lists a release, by its id.
func (d releasesData) Lists(id string) bool {
	return slices.ContainsFunc(d.Releases, func(r adminapi.Release) bool { return r.ID == id })
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
