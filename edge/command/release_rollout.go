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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
	"partneredge/edge/output"
	"partneredge/edge/release"
	"partneredge/store"
)

func defineRollout(flags *pflag.FlagSet) handler {
	flags.String("nodes", "", "`NODES` by comma, ids or names (default every node, and those enrolled later)")
	flags.String("regions", "", "`REGIONS` by comma, every node of them")
	percent := flags.Int64("percent", 100, "`PERCENT` of these nodes that the rollout reaches")
	flags.String("stages", "1,10,50,100", "`PERCENTAGES` of the nodes by comma, rising to 100")
	pause := newSeconds(flags, "pause", adminapi.RolloutPause, "`DURATION` for which each step is watched before the next")
	canary := flags.Int64("canary", 10, "`PERCENT` of its requests that a node gives the release first; 0: none, and latency is not compared")
	wait := flags.Bool("wait", false, "wait for its end; it fails if the release is rolled back")
	return func(ctx context.Context, c *invocation) error {
		in := adminapi.NewRollout{Percent: percent, CanaryPercent: canary, PauseSeconds: pause.count()}
		var stages []string
		if err := wordsOf(c.cmd, map[string]*[]string{"nodes": &in.Nodes, "regions": &in.Regions, "stages": &stages}); err != nil {
			return err
		}
		for _, text := range stages {
			stage, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
			if err != nil {
				return misused(c.cmd, "--stages %q are no percentages such as 1,10,50,100", c.cmd.Flag("stages").Value)
			}
			in.Stages = append(in.Stages, stage)
		}
		id, err := findRelease(ctx, c.admin, c.args[0])
		if err != nil {
			return err
		}
		return changeRollout(ctx, c, "/releases/"+url.PathEscape(id)+"/promote", in, *wait, "done")
	}
}

func defineRollback(flags *pflag.FlagSet) handler {
	wait := flags.Bool("wait", false, "wait for its end; it fails if a node may run the release still")
	return func(ctx context.Context, c *invocation) error {
		last, _, err := lastRollout(ctx, c.admin)
		if err != nil {
			return err
		}
		if last.State == "rolled_back" {
			return rolledBackAlready(ctx, c.admin, last)
		}
		return changeRollout(ctx, c, "/releases/"+url.PathEscape(last.ReleaseID)+"/rollback", nil, *wait, "rolled_back")
	}
}

// rolledBackAlready says what the nodes of a rollout run that went back, and how to go
// back further.
func rolledBackAlready(ctx context.Context, admin *adminapi.Client, last adminapi.Rollout) error {
	var releases []adminapi.Release
	for r, err := range adminapi.All[adminapi.Release](ctx, admin, "/releases", nil) {
		if err != nil {
			return err
		}
		releases = append(releases, r)
	}
	var runs []string
	for _, n := range last.Nodes {
		name := n.Before
		if name == "" {
			name = "the modules of their own disk"
		}
		for _, r := range releases {
			if r.Digest == n.Before {
				name = "release " + r.Version
			}
		}
		if !slices.Contains(runs, name) {
			runs = append(runs, name)
		}
	}
	slices.Sort(runs)
	return hint.Add(fmt.Errorf("release %s was rolled back already (%s): its nodes run %s", last.Version, output.Plain(last.Reason), strings.Join(runs, ", ")),
		"to go back further, bring an earlier release of 'edge release list' to them: edge release rollout VERSION")
}

// rolloutAdvice returns the command that helps where a rollout is refused for a reason,
// "" for other reasons.
func rolloutAdvice(reason string) string {
	switch reason {
	case "rollout_under_way":
		return "edge release status --watch follows it, edge release rollback ends it"
	case "not_rolled_out":
		return "edge release status shows the last rollout; to go back further: edge release rollout VERSION"
	case "no_node_connected", "node_unknown":
		return "edge status shows the nodes, and which are connected"
	}
	return ""
}

func defineRolloutStatus(flags *pflag.FlagSet) handler {
	return watching(flags, "go on until it has ended", func(ctx context.Context, c *invocation) (shown, error) {
		r, raw, err := lastRollout(ctx, c.admin)
		return shown{raw, func(w io.Writer) { printRollout(w, r) }, ended(r)}, err
	})
}

// lastRollout returns the newest rollout, and the JSON of it.
func lastRollout(ctx context.Context, admin *adminapi.Client) (r adminapi.Rollout, raw json.RawMessage, err error) {
	var page adminapi.List[json.RawMessage]
	if err := admin.Call(ctx, http.MethodGet, "/rollouts?limit=1", nil, &page); err != nil {
		return r, nil, err
	}
	if len(page.Items) == 0 {
		return r, nil, hint.Add(errors.New("finding the last rollout: there was none yet"), "edge release rollout RELEASE begins one")
	}
	return r, page.Items[0], json.Unmarshal(page.Items[0], &r)
}

// changeRollout begins or ends a rollout, and shows it: at once, or when it has
// ended, which must be in the wanted state.
func changeRollout(ctx context.Context, c *invocation, path string, in any, wait bool, wanted string) error {
	raw, r, err := call[adminapi.Rollout](ctx, c.admin, http.MethodPost, path, in)
	if err == nil && wait {
		r, raw, err = awaitRollout(ctx, c, r)
	}
	if err != nil {
		return err
	}
	if err := c.Print(raw, func(w io.Writer) { printRollout(w, r) }); err != nil {
		return err
	}
	if r.State != "rolled_back" {
		return nil
	}
	left, advice, err := notBack(ctx, c.admin, r)
	if r.State != wanted {
		runs := "every node runs what it ran before"
		switch {
		case err != nil: // why it was rolled back matters more
			runs = "edge release status shows which nodes run it still"
		case left != "":
			runs = left + "; " + advice
		}
		return hint.Add(fmt.Errorf("release %s was rolled back: %s", r.Version, r.Reason), "%s; %s", runs, rolledBackAdvice(r.Reason))
	}
	if err != nil {
		return fmt.Errorf("reading which nodes are revoked: %w", adminHint(err))
	}
	if left != "" {
		return hint.Add(fmt.Errorf("release %s was rolled back, but %s", r.Version, left), "%s", advice)
	}
	return nil
}

// namesMost bounds the names of nodes in an error.
const namesMost = 10

// notBack says which nodes of a rollout that was rolled back may run its release still, and what
// helps; "" where there is none. Such a node was away when the others went back, or could not go
// back. A revoked one serves nobody, and is left out.
func notBack(ctx context.Context, admin *adminapi.Client, r adminapi.Rollout) (left, advice string, err error) {
	reached := store.PartOf(len(r.Nodes), r.Stage)
	var nodes []adminapi.RolloutNode
	connected := 0
	for i, n := range r.Nodes {
		if n.State == "back" || n.State == "refused" || n.State == "failed" || i >= reached && n.State != "serving" {
			continue
		}
		nodes = append(nodes, n)
		if n.Connected {
			connected++
		}
	}
	advice = "they go back when they are connected"
	if connected > 0 {
		advice = "edge release status shows why"
	}
	if connected < len(nodes) {
		revoked, err := revokedNodes(ctx, admin)
		if err != nil {
			return "", "", err
		}
		nodes = slices.DeleteFunc(nodes, func(n adminapi.RolloutNode) bool { return revoked[n.ID] })
	}
	if len(nodes) == 0 {
		return "", "", nil
	}
	var names []string
	for _, n := range nodes[:min(len(nodes), namesMost)] {
		names = append(names, output.Plain(cmp.Or(n.Name, n.ID)))
	}
	if more := len(nodes) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d of %d nodes may run it still: %s", len(nodes), len(r.Nodes), strings.Join(names, ", ")), advice, nil
}

// revokedNodes returns the ids of the revoked nodes.
func revokedNodes(ctx context.Context, admin *adminapi.Client) (map[string]bool, error) {
	revoked := make(map[string]bool)
	for n, err := range adminapi.All[adminapi.Node](ctx, admin, "/nodes", nil) {
		if err != nil {
			return nil, err
		}
		revoked[n.ID] = !n.RevokedAt.IsZero()
	}
	return revoked, nil
}

// rolledBackAdvice returns what helps where a release was rolled back for a reason.
func rolledBackAdvice(reason string) string {
	switch {
	case strings.Contains(reason, "trusts no release key"):
		return "start the node with --release-keys FILE, the public keys that edge release keygen makes"
	case strings.Contains(reason, release.ErrWrongKey.Error()):
		return "sign it with a key that the node trusts (edge release sign), or put the signer's public key into the node's --release-keys"
	case strings.Contains(reason, release.ErrDowngrade.Error()):
		return "pack it under a newer version, or lower the node's --min-release"
	}
	return "the log of a node says more"
}

// awayMost bounds the time for which a command that waits for a rollout does without an answer
// of the origin, which goes on with it after a restart.
const awayMost = 2 * time.Minute

// awaitRollout shows the progress of a rollout until it has ended: as a bar on a
// terminal, and elsewhere as a line for each step.
func awaitRollout(ctx context.Context, c *invocation, r adminapi.Rollout) (adminapi.Rollout, json.RawMessage, error) {
	const every = 250 * time.Millisecond
	bar := output.NewBar(c.stderr, int64(len(r.Nodes)), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(true))
	defer func() { _ = bar.Finish() }() // it is only a picture
	stopped := func(err error) (adminapi.Rollout, json.RawMessage, error) {
		return r, nil, hint.Add(fmt.Errorf("waiting for rollout %s: %w", r.ID, err), "it goes on by itself: edge release status --watch")
	}
	var raw json.RawMessage
	read := func() (now adminapi.Rollout, err error) {
		raw, now, err = call[adminapi.Rollout](ctx, c.admin, http.MethodGet, "/rollouts/"+url.PathEscape(r.ID), nil)
		return now, err
	}
	shown, heard := "", time.Now()
	for now, err := range poll(ctx, every, read) {
		switch {
		case err == nil:
			r, heard = now, time.Now()
		case refused(err) || time.Since(heard) > awayMost:
			return stopped(err)
		}
		if output.IsTerminal(c.stderr) {
			bar.Describe(output.Plain(r.Version + ", " + step(r)))
			_ = bar.Set(min(r.Serving, max(len(r.Nodes)-1, 0))) // the last one would end the bar before the rollout
		} else if step(r) != shown {
			shown = step(r)
			fmt.Fprintf(c.stderr, "release %s: %s, %d of %d nodes serve\n", output.Plain(r.Version), output.Plain(shown), r.Serving, len(r.Nodes))
		}
		if ended(r) {
			return r, raw, nil
		}
	}
	return stopped(ctx.Err())
}

// refused reports whether the origin has answered that it will not, rather than not now.
func refused(err error) bool {
	answer, ok := errors.AsType[*adminapi.Error](err)
	return ok && answer.Status < http.StatusInternalServerError && answer.Status != http.StatusTooManyRequests
}

func ended(r adminapi.Rollout) bool { return r.State == "done" || r.State == "rolled_back" }

// step describes in a few words how far a rollout is.
func step(r adminapi.Rollout) string {
	switch {
	case r.State != "rolling_out":
		return strings.ReplaceAll(r.State, "_", " ")
	case r.Trying:
		return fmt.Sprintf("stage %d%%, at %d%% of requests", r.Stage, r.CanaryPercent)
	}
	return fmt.Sprintf("stage %d%%", r.Stage)
}

func printRollout(w io.Writer, r adminapi.Rollout) {
	fmt.Fprintf(w, "rollout\t%s\nrelease\t%s %s\nstate\t%s\n", output.Plain(r.ID), output.Plain(r.Version), output.Plain(r.ReleaseID), output.Plain(step(r)))
	if r.Reason != "" {
		fmt.Fprintf(w, "reason\t%s\n", output.Plain(r.Reason))
	}
	fmt.Fprintf(w, "serving\t%d of %d nodes\n\nREGION\tNODE\tSTATE\tSHARE\tREQUESTS\tERRORS\tFAILURES\tREASON\n", r.Serving, len(r.Nodes))
	for _, n := range r.Nodes {
		state := n.State
		if !n.Connected {
			state = "away"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d%%\t%d\t%d\t%d\t%s\n", output.Plain(n.Region), output.Plain(n.Name), output.Plain(state), n.Percent, n.Requests, n.Errors, n.Failures, output.Plain(cmp.Or(n.Reason, "-")))
	}
}

// findRelease returns the id of the release that ref names: an id, a version, or a
// digest or its beginning, of eight digits at least, which no other release has.
func findRelease(ctx context.Context, admin *adminapi.Client, ref string) (id string, err error) {
	if strings.HasPrefix(ref, "rel_") {
		return ref, nil
	}
	digits := strings.TrimPrefix(ref, "sha256:")
	for r, err := range adminapi.All[adminapi.Release](ctx, admin, "/releases", nil) {
		if err != nil {
			return "", err
		}
		if r.Version == ref {
			return r.ID, nil
		}
		if len(digits) < 8 || !strings.HasPrefix(strings.TrimPrefix(r.Digest, "sha256:"), digits) {
			continue
		}
		if id != "" {
			return "", fmt.Errorf("finding the release: %q is the beginning of several digests", ref)
		}
		id = r.ID
	}
	if id != "" {
		return id, nil
	}
	return "", hint.Add(fmt.Errorf("finding the release: the origin has none that is %q", ref), "edge release list shows what there is")
}
