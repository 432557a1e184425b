package command

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"time"

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
	since := flags.String("since", "", "`TIME` of the oldest entry: RFC 3339, or a duration before now (default: all)")
	until := flags.String("until", "", "`TIME` that the entries are before, likewise (default: all)")
	return func(ctx context.Context, c *invocation) (err error) {
		var from, to time.Time
		if *since != "" {
			if from, err = timeOrAge(c.cmd, "since", *since); err != nil {
				return err
			}
		}
		if *until != "" {
			if to, err = timeOrAge(c.cmd, "until", *until); err != nil {
				return err
			}
		}
		return exportAudit(ctx, c, from, to)
	}
}

// exportAudit writes entries as the admin API gives them. The log begins with the
// newest, so it ends with the first that is too old. A zero time is no bound.
func exportAudit(ctx context.Context, c *invocation, from, to time.Time) error {
	out := bufio.NewWriter(c.Out)
	for raw, err := range adminapi.All[json.RawMessage](ctx, c.admin, "/audit", nil) {
		if err != nil {
			return err
		}
		var entry struct {
			At time.Time `json:"at"`
		}
		if err := json.Unmarshal(raw, &entry); err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		if entry.At.Before(from) {
			break
		}
		if !to.IsZero() && !entry.At.Before(to) {
			continue
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
