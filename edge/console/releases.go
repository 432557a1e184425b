package console

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// release is what the pages show of the API's.
type release struct {
	ID      string    `json:"id"`
	Version string    `json:"version"`
	Digest  string    `json:"digest"`
	Created time.Time `json:"created_at"`
}

type rollout struct {
	ID      string    `json:"id"`
	Release string    `json:"release_id"`
	Digest  string    `json:"digest"`
	Version string    `json:"version"`
	State   string    `json:"state"`
	Reason  string    `json:"reason"`
	Stages  []int     `json:"stages"`
	Stage   int       `json:"stage"`
	Canary  int       `json:"canary_percent"`
	Trying  bool      `json:"trying"`
	Pause   float64   `json:"pause_seconds"`
	Serving int       `json:"serving"`
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
	Nodes   []struct {
		ID        string `json:"id"`
		Name      string `json:"name"`
		Region    string `json:"region"`
		Connected bool   `json:"connected"`
		Percent   int    `json:"percent"`
		State     string `json:"state"`
		Reason    string `json:"reason"`
		Requests  uint64 `json:"requests"`
		Errors    uint64 `json:"errors"`
		Failures  uint64 `json:"failures"`
	} `json:"nodes"`
}

// Active tells whether the rollout is under way.
func (r rollout) Active() bool { return r.State == "rolling_out" || r.State == "rolling_back" }

// Undoable tells whether it can be rolled back: the last one only.
func (r rollout) Undoable() bool { return r.State == "rolling_out" || r.State == "done" }

// releasesPage is what the page of releases is made from.
type releasesPage struct {
	Releases []release
	Last     *rollout // nil: there was none yet
	Earlier  []rollout
	Regions  []string
	Running  []running
}

// running is how many connected nodes run a version; "" is the modules of their
// own disks.
type running struct {
	Version string
	Nodes   int
}

func (c *Console) releases(w http.ResponseWriter, r *http.Request, s *session) {
	var (
		releases list[release]
		rollouts list[rollout]
		nodes    list[node]
	)
	for from, into := range map[string]any{"/releases" + cursor(r): &releases, "/rollouts?limit=10": &rollouts, "/nodes?limit=200": &nodes} {
		if err := c.api.call(r, s.token, http.MethodGet, from, nil, into); err != nil {
			c.failed(w, r, s, err)
			return
		}
	}
	data := releasesPage{Releases: releases.Items}
	if len(rollouts.Items) > 0 {
		data.Last, data.Earlier = &rollouts.Items[0], rollouts.Items[1:]
	}
	for _, n := range nodes.Items {
		if n.Revoked != nil {
			continue
		}
		if !slices.Contains(data.Regions, n.Region) {
			data.Regions = append(data.Regions, n.Region)
		}
		if !n.Connected || n.Status == nil || n.Status.Running == nil {
			continue
		}
		at := slices.IndexFunc(data.Running, func(one running) bool { return one.Version == n.Status.Running.Version })
		if at < 0 {
			at = len(data.Running)
			data.Running = append(data.Running, running{Version: n.Status.Running.Version})
		}
		data.Running[at].Nodes++
	}
	slices.Sort(data.Regions)
	c.show(w, s, http.StatusOK, "releases", view{Title: "Releases", Section: "releases", Data: data, Next: next(r, releases.Next)})
}

// promote begins a rollout.
func (c *Console) promote(r *http.Request, s *session) (notice, string, error) {
	to := Path + "releases"
	in := map[string]any{"nodes": words(r.PostForm.Get("nodes")), "regions": r.PostForm["region"]}
	for field, name := range map[string]string{"pause": "pause_seconds", "canary": "canary_percent", "percent": "percent"} {
		text := r.PostForm.Get(field)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return notice{Text: "Not done: " + field + " is a number.", Failed: true}, to, nil
		}
		in[name] = n
	}
	var stages []int
	for _, word := range words(r.PostForm.Get("stages")) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return notice{Text: "Not done: stages are percentages that rise to 100, such as 1 10 50 100.", Failed: true}, to, nil
		}
		stages = append(stages, n)
	}
	in["stages"] = stages
	var begun rollout
	err := c.post(r, s, "/releases/"+url.PathEscape(r.PostForm.Get("release"))+"/promote", in, &begun)
	return notice{Text: "Rollout of " + begun.Version + " begun."}, to, err
}

func (c *Console) rollBack(r *http.Request, s *session) (notice, string, error) {
	return notice{Text: "Rolling back: the nodes run again what they ran before."}, Path + "releases", c.post(r, s, "/releases/"+id(r)+"/rollback", nil, nil)
}
