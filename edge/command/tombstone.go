package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
)

// newTombstone makes the commands for what was deleted.
func newTombstone() *cobra.Command {
	return newGroup("tombstone", "list the leads and accounts that were deleted, and keep them deleted after a restore",
		newListCommand("list", "list the leads and accounts that were deleted, the last first; keep it with --json", "/tombstones", "id", "deleted_at"),
		newAdminCommand("apply FILE", "delete again what a list with --json names, and keep it from coming back", func(*pflag.FlagSet) handler { return applyTombstones }),
	)
}

func applyTombstones(ctx context.Context, c *invocation) error {
	text, err := os.ReadFile(c.args[0])
	if err != nil {
		return fmt.Errorf("reading tombstones: %w", err)
	}
	var all []adminapi.Tombstone
	if err := json.Unmarshal(text, &all); err != nil {
		return hint.Add(fmt.Errorf("reading tombstones of %s: %w", c.args[0], err), "edge tombstone list --json writes such a file")
	}
	for i, s := range all {
		at := s.DeletedAt.UTC().Format(time.RFC3339Nano)
		if _, err := c.admin.Bury(ctx, adminapi.NewTombstone{ID: &s.ID, DeletedAt: &at}); err != nil {
			return fmt.Errorf("%d of %d applied: %w", i, len(all), err)
		}
	}
	return c.Line(map[string]any{"applied": len(all)}, fmt.Sprintf("applied\t%d", len(all)))
}
