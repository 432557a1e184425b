package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	var applied int
	var failed []error
	for _, s := range all {
		at := s.DeletedAt.UTC().Format(time.RFC3339Nano)
		_, err := c.admin.Bury(ctx, adminapi.NewTombstone{ID: &s.ID, DeletedAt: &at})
		if err == nil {
			applied++
			continue
		}
		if !ofOneTombstone(err) {
			failed = append(failed, adminHint(err))
			break
		}
		// The advice is left out: it would be given once for all.
		failed = append(failed, fmt.Errorf("%q: %s", s.ID, adminHint(err).Error()))
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d applied: %w", applied, len(all), errors.Join(failed...))
	}
	return c.Line(map[string]any{"applied": len(all)}, fmt.Sprintf("applied\t%d", len(all)))
}

// ofOneTombstone reports whether the origin refused one tombstone, and others may still pass.
func ofOneTombstone(err error) bool {
	var refused *adminapi.Error
	return errors.As(err, &refused) && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusConflict)
}
