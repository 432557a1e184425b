package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"
)

// nodeLine is one node as the origin knows it.
type nodeLine struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Region     string     `json:"region"`
	Version    string     `json:"version"`
	Connected  bool       `json:"connected"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastSeenAt *time.Time `json:"last_seen_at"`
	Status     *struct {
		Release   string `json:"release"`
		Seq       int64  `json:"seq"`
		Outbox    int    `json:"outbox"`
		HotKeys   int    `json:"hot_keys"`
		Sandboxes int    `json:"sandboxes"`
	} `json:"status"`
	// Lag is how many changes the node has taken in less than the one that is
	// furthest; null while it says nothing.
	Lag *int64 `json:"lag"`
}

func runStatus(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("status", "edge status [flags]", stderr)
	address := f.String("admin", "", "`URL` of the origin's admin API (default $EDGE_ADMIN_URL)")
	tokenFile := f.String("token-file", "", "`FILE` with an admin token (default $EDGE_ADMIN_TOKEN_FILE)")
	data := f.String("data", "", "`DIR` of an `edge dev` or `edge origin` that runs here, in place of --admin and --token-file")
	asJSON := f.Bool("json", false, "print JSON: an array of nodes, with --watch one a line")
	watch := f.Bool("watch", false, "go on until interrupted")
	every := f.Duration("every", 2*time.Second, "`DURATION` between two tables with --watch")
	if err := f.parse(args); err != nil {
		return err
	}
	if *every <= 0 {
		return usagef(f.hint(), "status: --every must be more than 0")
	}
	admin, err := findAdmin(*data, *address, *tokenFile)
	if err != nil {
		return err
	}
	for {
		nodes, err := fetchNodes(ctx, admin)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return adminHint(err)
		}
		if *watch && !*asJSON {
			fmt.Fprint(stdout, "\x1b[H\x1b[2J") // home, and clear the screen
		}
		if err := printNodes(stdout, nodes, *asJSON, time.Now()); err != nil || !*watch {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(*every):
		}
	}
}

// fetchNodes reads all nodes that are not revoked, by region and name.
func fetchNodes(ctx context.Context, admin *adminClient) ([]nodeLine, error) {
	nodes := []nodeLine{}
	latest := int64(0)
	for cursor := ""; ; {
		var page struct {
			Items []nodeLine `json:"items"`
			Next  string     `json:"next_cursor"`
		}
		if err := admin.call(ctx, http.MethodGet, "/nodes?limit=200&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return nil, err
		}
		for _, n := range page.Items {
			if n.Status != nil {
				latest = max(latest, n.Status.Seq)
			}
			if n.RevokedAt == nil {
				nodes = append(nodes, n)
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for i := range nodes {
		if s := nodes[i].Status; s != nil {
			lag := latest - s.Seq
			nodes[i].Lag = &lag
		}
	}
	slices.SortFunc(nodes, func(a, b nodeLine) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return nodes, nil
}

func printNodes(w io.Writer, nodes []nodeLine, asJSON bool, now time.Time) error {
	if asJSON {
		return json.NewEncoder(w).Encode(nodes)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REGION\tNODE\tSTATE\tVERSION\tLAG\tOUTBOX\tHOT KEYS\tSANDBOXES\tSEEN")
	for _, n := range nodes {
		state := "away"
		if n.Connected {
			state = "up"
		}
		version, lag, outbox, keys, sandboxes, seen := cmp.Or(n.Version, "-"), "-", "-", "-", "-", "never"
		if s := n.Status; s != nil {
			version = cmp.Or(s.Release, version)
			lag, outbox, keys, sandboxes = fmt.Sprint(*n.Lag), fmt.Sprint(s.Outbox), fmt.Sprint(s.HotKeys), fmt.Sprint(s.Sandboxes)
		}
		if n.LastSeenAt != nil {
			seen = max(0, now.Sub(*n.LastSeenAt)).Round(time.Second).String() + " ago"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Region, n.Name, state, version, lag, outbox, keys, sandboxes, seen)
	}
	return table.Flush()
}
