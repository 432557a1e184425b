package command

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
)

func newAudit() *cobra.Command {
	return newGroup("audit", "export the audit log",
		newAdminCommand("export", "write the audit log as JSON lines, newest first", defineAuditExport))
}

func defineAuditExport(flags *pflag.FlagSet) handler {
	part := selection{"target": flags.String("target", "", "only changes of the record of this `ID`")}
	part.span(flags, "entries")
	return func(ctx context.Context, c *invocation) error {
		query, err := part.query(c.cmd)
		if err != nil {
			return err
		}
		return exportAudit(ctx, c, query)
	}
}

// exportAudit writes entries as the admin API gives them.
func exportAudit(ctx context.Context, c *invocation, query url.Values) error {
	out := bufio.NewWriter(c.Out)
	for raw, err := range adminapi.All[json.RawMessage](ctx, c.admin, "/audit", query) {
		if err != nil {
			return err
		}
		if err := output.WriteJSON(out, raw); err != nil {
			return fmt.Errorf("write audit log: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write audit log: %w", err)
	}
	return nil
}
