package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
	"partneredge/edge/output"
)

func newLockout() *cobra.Command {
	return newGroup("lockout", "list and clear the lockouts of addresses, at every node",
		newAdminCommand("list", "list the addresses that nodes refuse after failed authentications", defineLockoutList),
		newAdminCommand("clear [NETWORK]", "end the lockouts of an address or a network, at every node that can be reached", defineLockoutClear),
	)
}

func defineLockoutList(flags *pflag.FlagSet) handler {
	network := flags.String("network", "", "only this `ADDRESS`, or those of a network such as 192.0.2.0/24")
	return func(ctx context.Context, c *invocation) error {
		path := "/lockouts"
		if *network != "" {
			path += "?network=" + url.QueryEscape(*network)
		}
		raw, list, err := call[adminapi.Lockouts](ctx, c.admin, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		err = c.Print(raw, func(w io.Writer) {
			fmt.Fprintln(w, "ADDRESS\tREGION\tNODE\tUNTIL\tLEFT")
			for _, l := range list.Items {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", output.Plain(l.Address), output.Plain(l.Region), output.Plain(l.Node),
					l.Until.UTC().Format(time.RFC3339), max(0, time.Until(l.Until.Time)).Round(time.Second))
			}
		})
		if more := list.Total - len(list.Items); more > 0 {
			fmt.Fprintf(c.stderr, "%d more are not shown: choose some with --network\n", more)
		}
		if len(list.Unreached) > 0 {
			fmt.Fprintf(c.stderr, "not known of %s\n", unreachedText(list.Unreached))
		}
		return err
	}
}

func defineLockoutClear(flags *pflag.FlagSet) handler {
	all := flags.Bool("all", false, "of every address, in place of NETWORK")
	return func(ctx context.Context, c *invocation) error {
		in := adminapi.LockoutSelection{All: all}
		switch {
		case *all == (len(c.args) > 0):
			return misused(c.cmd, "give either a NETWORK, which may be one address, or --all")
		case !*all:
			in = adminapi.LockoutSelection{Network: &c.args[0]}
		}
		raw, done, err := call[adminapi.ClearedLockouts](ctx, c.admin, http.MethodPost, "/lockouts/clear", in)
		if err != nil {
			return err
		}
		if err := c.Print(raw, func(w io.Writer) { fmt.Fprintf(w, "cleared\t%d\n", done.Cleared) }); err != nil {
			return err
		}
		if len(done.Unreached) > 0 {
			return hint.Add(fmt.Errorf("lockouts may go on at %s", unreachedText(done.Unreached)), "clear them again once the nodes are back: edge status shows them")
		}
		return nil
	}
}

// unreachedText names nodes, each with its region and why it did not answer.
func unreachedText(nodes []adminapi.UnreachedNode) string {
	var all []string
	for _, n := range nodes {
		all = append(all, output.Plain(fmt.Sprintf("%s (%s): %s", n.Node, n.Region, n.Reason)))
	}
	return strings.Join(all, "; ")
}
