package command

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
	"partneredge/store/durable"
)

// newNodeOperations makes the commands below edge node, by which operators enrol,
// list and revoke nodes.
func newNodeOperations() []*cobra.Command {
	return []*cobra.Command{
		newAdminCommand("enrol", "make a node, and print its credentials or write them to a file, once", defineNodeEnrol),
		newListCommand("list", "list all nodes, revoked ones as well, newest first", "/nodes",
			"id", "region", "name", "connected", "build", "created_at", "last_seen_at", "revoked_at"),
		newRecordCommand("revoke NODE", "void a node's credentials and end its connection", "POST /nodes/%s/revoke", nil,
			"id", "region", "name", "revoked_at"),
	}
}

func defineNodeEnrol(flags *pflag.FlagSet) handler {
	name := flags.String("name", "", "`NAME` of the node, for operators")
	region := flags.String("region", "", "`NAME` of the region that it stands in, as its own --region says")
	out := flags.String("out", "", "`FILE` that the credentials are written to, mode 0600, for --credentials of edge node (default: standard output)")
	return func(ctx context.Context, c *invocation) error {
		if err := required(c.cmd, "name", "region"); err != nil {
			return err
		}
		raw, made, err := call[adminapi.EnrolledNode](ctx, c.admin, http.MethodPost, "/nodes", adminapi.NewNode{Name: name, Region: region})
		if err != nil {
			return err
		}
		if *out != "" {
			if err := durable.WriteFile(*out, []byte(made.Credentials), 0o600); err != nil {
				return hint(fmt.Errorf("node %s is enrolled, but its credentials are lost: %w", output.Plain(made.Node.ID), err),
					"edge node revoke %s, and enrol it again", output.Plain(made.Node.ID))
			}
		}
		switch {
		case c.JSON && *out == "":
			return c.Print(raw, nil)
		case *out == "":
			if _, err := io.WriteString(c.Out, output.Lines(made.Credentials)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.stderr, "node %s enrolled. Keep what is printed: it is not shown again.\n", output.Plain(made.Node.ID))
			return err
		}
		return c.Line(map[string]any{"id": made.Node.ID, "credentials": *out}, fmt.Sprintf("%s\tcredentials in %s", output.Plain(made.Node.ID), output.Plain(*out)))
	}
}
