package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// rolloutOperations are those of `edge release` that bring releases to nodes.
func rolloutOperations() []operation {
	return []operation{
		{name: "rollout", args: "RELEASE", summary: "bring a release (its id, version or digest) to the nodes, stage by stage", flags: func(o *operators) {
			o.text("nodes", "", "`NODES` by comma, ids or names (default every node, and those enrolled later)")
			o.text("regions", "", "`REGIONS` by comma, every node of them")
			o.Int("percent", 100, "`NUMBER`: that part of these nodes")
			o.text("stages", "1,10,50,100", "`PERCENTAGES` of the nodes by comma, rising to 100")
			o.Duration("pause", 30*time.Second, "`DURATION` for which each step is watched before the next")
			o.Int("canary", 10, "`PERCENT` of its requests that a node gives the release first; 0: none")
			o.Bool("wait", false, "wait for its end; it fails if the release is rolled back")
		}, run: runRollout},
		{name: "status", summary: "show the last rollout, node by node", flags: func(o *operators) {
			o.Bool("watch", false, "go on until it has ended")
			o.Duration("every", 2*time.Second, "`DURATION` between two tables with --watch")
		}, run: runReleaseStatus},
		{name: "rollback", summary: "end the rollout under way, or undo the last one: its nodes run what they ran before", flags: func(o *operators) {
			o.Bool("wait", false, "wait until every node has gone back")
		}, run: runRollback},
	}
}

// rolloutRecord is a rollout as the admin API shows it.
type rolloutRecord struct {
	ID        string `json:"id"`
	ReleaseID string `json:"release_id"`
	Version   string `json:"version"`
	State     string `json:"state"`
	Reason    string `json:"reason"`
	Stage     int    `json:"stage"`
	Canary    int    `json:"canary_percent"`
	Trying    bool   `json:"trying"`
	Serving   int    `json:"serving"`
	Nodes     []struct {
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

func (r *rolloutRecord) ended() bool { return r.State == "done" || r.State == "rolled_back" }

// step says in a few words how far it is.
func (r *rolloutRecord) step() string {
	switch {
	case r.State != "rolling_out":
		return strings.ReplaceAll(r.State, "_", " ")
	case r.Trying:
		return fmt.Sprintf("stage %d%%, at %d%% of requests", r.Stage, r.Canary)
	}
	return fmt.Sprintf("stage %d%%", r.Stage)
}

func runRollout(ctx context.Context, o *operators) error {
	var stages []int
	for _, text := range byComma(o.value("stages")) {
		percent, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
		if err != nil {
			return usagef(o.hint(), "%s: --stages %q are no percentages such as 1,10,50,100", o.Name(), o.value("stages"))
		}
		stages = append(stages, percent)
	}
	id, err := findRelease(ctx, o.admin, o.args[0])
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := o.admin.call(ctx, http.MethodPost, "/releases/"+url.PathEscape(id)+"/promote", map[string]any{
		"nodes": byComma(o.value("nodes")), "regions": byComma(o.value("regions")), "percent": flagValue[int](o, "percent"),
		"stages": stages, "pause_seconds": int64(flagValue[time.Duration](o, "pause") / time.Second), "canary_percent": flagValue[int](o, "canary"),
	}, &raw); err != nil {
		return err
	}
	return o.follow(ctx, raw, "done")
}

func runRollback(ctx context.Context, o *operators) error {
	last, _, err := lastRollout(ctx, o.admin)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := o.admin.call(ctx, http.MethodPost, "/releases/"+url.PathEscape(last.ReleaseID)+"/rollback", nil, &raw); err != nil {
		return err
	}
	return o.follow(ctx, raw, "rolled_back")
}

// lastRollout is the newest one.
func lastRollout(ctx context.Context, admin *adminClient) (r rolloutRecord, raw json.RawMessage, err error) {
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := admin.call(ctx, http.MethodGet, "/rollouts?limit=1", nil, &page); err != nil {
		return r, nil, err
	}
	if len(page.Items) == 0 {
		return r, nil, hint(errors.New("finding the last rollout: there was none yet"), "edge release rollout RELEASE begins one")
	}
	return r, page.Items[0], json.Unmarshal(page.Items[0], &r)
}

// rolloutEvery is how often a rollout is looked at that is waited for.
const rolloutEvery = 250 * time.Millisecond

// follow shows a rollout, with --wait once it has ended, which has to be in the
// wanted state.
func (o *operators) follow(ctx context.Context, raw json.RawMessage, wanted string) error {
	var r rolloutRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	if flagValue[bool](o, "wait") {
		bar := newRolloutBar(o.stderr, len(r.Nodes), r.Version)
		for !r.ended() {
			bar.show(&r)
			select {
			case <-ctx.Done():
				bar.end()
				return hint(fmt.Errorf("waiting for rollout %s: %w", r.ID, ctx.Err()), "it goes on by itself: edge release status --watch")
			case <-time.After(rolloutEvery):
			}
			if err := o.admin.call(ctx, http.MethodGet, "/rollouts/"+url.PathEscape(r.ID), nil, &raw); err != nil {
				bar.end()
				return err
			}
			r = rolloutRecord{}
			if err := json.Unmarshal(raw, &r); err != nil {
				return err
			}
		}
		bar.show(&r)
		bar.end()
	}
	if err := o.print(raw, func(w io.Writer) error { return printRollout(w, &r) }); err != nil {
		return err
	}
	if r.ended() && r.State != wanted {
		return hint(fmt.Errorf("release %s was rolled back: %s", r.Version, r.Reason), "every node runs what it ran before; the log of a node says more")
	}
	return nil
}

func runReleaseStatus(ctx context.Context, o *operators) error {
	watch, every := flagValue[bool](o, "watch"), flagValue[time.Duration](o, "every")
	if every <= 0 {
		return usagef(o.hint(), "%s: --every must be more than 0", o.Name())
	}
	for {
		r, raw, err := lastRollout(ctx, o.admin)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if watch && !o.json {
			fmt.Fprint(o.out, "\x1b[H\x1b[2J") // home, and clear the screen
		}
		if err := o.print(raw, func(w io.Writer) error { return printRollout(w, &r) }); err != nil || !watch || r.ended() {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

func printRollout(w io.Writer, r *rolloutRecord) error {
	fmt.Fprintf(w, "rollout\t%s\nrelease\t%s %s\nstate\t%s\n", r.ID, r.Version, r.ReleaseID, r.step())
	if r.Reason != "" {
		fmt.Fprintf(w, "reason\t%s\n", r.Reason)
	}
	fmt.Fprintf(w, "serving\t%d of %d nodes\n\nREGION\tNODE\tSTATE\tSHARE\tREQUESTS\tERRORS\tFAILURES\tREASON\n", r.Serving, len(r.Nodes))
	for _, n := range r.Nodes {
		state := n.State
		if !n.Connected {
			state = "away"
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\t%d%%\t%d\t%d\t%d\t%s\n", n.Region, n.Name, state, n.Percent, n.Requests, n.Errors, n.Failures, cmp.Or(n.Reason, "-")); err != nil {
			return err
		}
	}
	return nil
}
