package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/backoff"
	"partneredge/edge/output"
)

func newStatus() *cobra.Command {
	return newAdminCommand("status", "show the nodes: regions, versions, lag, outboxes, sandboxes, hot keys", func(flags *pflag.FlagSet) handler {
		flags.Lookup("json").Usage = "print JSON: an array of nodes (kind node) and behind them of regions' servers (kind nats_server), with --watch one a line"
		return watching(flags, "go on until interrupted", func(ctx context.Context, c *invocation) (shown, error) {
			nodes, err := listNodes(ctx, c.admin)
			if err != nil {
				return shown{}, err
			}
			regions, err := listRegions(ctx, c.admin)
			if err != nil {
				return shown{}, err
			}
			raw, err := json.Marshal(statusLines(nodes, regions))
			return shown{raw: raw, text: func(w io.Writer) {
				printNodes(w, nodes)
				printRegions(w, regions)
			}}, err
		})
	})
}

// statusLines returns what the table holds as JSON has it: one array, so that a reader who
// looks for nodes finds them where no region has a server.
func statusLines(nodes []nodeLine, regions []adminapi.Region) []any {
	lines := make([]any, 0, len(nodes)+len(regions))
	for _, n := range nodes {
		n.Kind = "node"
		lines = append(lines, n)
	}
	for _, r := range regions {
		lines = append(lines, serverLine{Kind: "nats_server", Region: r})
	}
	return lines
}

// serverLine is the NATS server of a region in the table.
type serverLine struct {
	Kind string `json:"kind"`
	adminapi.Region
}

// nodeLine is a node in the table.
type nodeLine struct {
	Kind       string     `json:"kind"`
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Region     string     `json:"region"`
	Build      string     `json:"build"` // version of the program
	Connected  bool       `json:"connected"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastSeenAt *time.Time `json:"last_seen_at"`
	// Release names the release that answers most requests; null before the node reported a status.
	Release *adminapi.NodeRelease `json:"release"`
	Status  *nodeStatus           `json:"status"`
	// Lag counts the changes that the node has yet to apply, of those that the node
	// furthest ahead has applied; null before the node reported a status.
	Lag *int64 `json:"lag"`
}

type nodeStatus struct {
	Seq       int64 `json:"seq"`
	Outbox    int   `json:"outbox"`
	HotKeys   int   `json:"hot_keys"`
	Sandboxes int   `json:"sandboxes"`
}

// listNodes returns the nodes that are not revoked, by region and name.
func listNodes(ctx context.Context, admin *adminapi.Client) ([]nodeLine, error) {
	nodes := []nodeLine{}
	latest := int64(0)
	for n, err := range adminapi.All[nodeLine](ctx, admin, "/nodes", nil) {
		if err != nil {
			return nil, err
		}
		if n.Status != nil {
			latest = max(latest, n.Status.Seq)
		}
		if n.RevokedAt == nil {
			nodes = append(nodes, n)
		}
	}
	for i := range nodes {
		if s := nodes[i].Status; s != nil {
			nodes[i].Lag = new(latest - s.Seq)
		}
	}
	slices.SortFunc(nodes, func(a, b nodeLine) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return nodes, nil
}

func printNodes(w io.Writer, nodes []nodeLine) {
	fmt.Fprintln(w, "REGION\tNODE\tSTATE\tRELEASE\tRELEASE ID\tRELEASE STATE\tBUILD\tLAG\tOUTBOX\tHOT KEYS\tSANDBOXES\tSEEN")
	for _, n := range nodes {
		state, seen := "away", "never"
		if n.Connected {
			state = "up"
		}
		if n.LastSeenAt != nil {
			seen = max(0, time.Since(*n.LastSeenAt)).Round(time.Second).String() + " ago"
		}
		counts := "-\t-\t-\t-"
		if s := n.Status; s != nil {
			counts = fmt.Sprintf("%d\t%d\t%d\t%d", *n.Lag, s.Outbox, s.HotKeys, s.Sandboxes)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", output.Plain(n.Region), output.Plain(n.Name), state, servedCells(n.Release), output.Plain(cmp.Or(n.Build, "-")), counts, seen)
	}
}

// servedCells returns the cells of a release: its version, id and state.
func servedCells(r *adminapi.NodeRelease) string {
	if r == nil {
		return "-\t-\t-"
	}
	state := strings.ReplaceAll(r.State, "_", " ")
	if r.Percent < 100 {
		state += fmt.Sprintf(" %d%%", r.Percent)
	}
	version := r.Version
	if r.Digest == "" {
		version = "-"
	}
	return output.Plain(version) + "\t" + output.Plain(cmp.Or(r.ID, "-")) + "\t" + output.Plain(state)
}

// shown is a table of a command that can watch, and its JSON.
type shown struct {
	raw  json.RawMessage
	text func(io.Writer)
	last bool // nothing changes any more
}

// watching defines --watch and --every for a command that shows a table. With
// --watch it reads and shows the table again until it is the last one, or ctx
// ends. Once it has shown one, the end of ctx is no error, and a read that failed is
// reported and made again, unless the origin refused it.
func watching(flags *pflag.FlagSet, watchUsage string, read func(context.Context, *invocation) (shown, error)) handler {
	watch := flags.Bool("watch", false, watchUsage)
	every := flags.Duration("every", 2*time.Second, "`DURATION` between two tables with --watch")
	return func(ctx context.Context, c *invocation) error {
		if *every <= 0 {
			return misused(c.cmd, "--every must be more than 0")
		}
		began := false
		for s, err := range poll(ctx, *every, func() (shown, error) { return read(ctx, c) }) {
			if err != nil {
				if !began || refused(err) {
					return err
				}
				reconnecting(c.stderr)(err, *every)
				continue
			}
			began = true
			if *watch && !c.JSON {
				output.ClearScreen(c.Out)
			}
			if err := c.Print(s.raw, s.text); err != nil || s.last || !*watch {
				return err
			}
		}
		if !began {
			return fmt.Errorf("asking the origin: %w", ctx.Err())
		}
		return nil
	}
}

// poll yields what read returns, at once and then each time that every has passed, until
// ctx ends.
func poll[T any](ctx context.Context, every time.Duration, read func() (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			record, err := read()
			if ctx.Err() != nil || !yield(record, err) {
				return
			}
			if backoff.Pause(ctx, every) != nil {
				return
			}
		}
	}
}
