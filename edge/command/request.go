package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
)

func newRequest() *cobra.Command {
	return newGroup("request", "find requests that partners made, by X-Request-Id, key or account",
		newRecordCommand("show REQUEST", "show a request by its X-Request-Id, from the node that answered it", "GET /requests/%s", nil,
			"id", "at", "node", "region", "key_id", "account_id", "method", "route", "status", "duration_ms", "error", "reason"),
		newAdminCommand("list", "list the newest requests, from all nodes", defineRequestList),
	)
}

func defineRequestList(flags *pflag.FlagSet) handler {
	part := selection{
		"account_id": flags.String("account", "", "only those of the account of this `ID`"),
		"key_id":     flags.String("key", "", "only those with the key of this `ID`"),
		"status":     flags.String("status", "", "only those answered with this `STATUS`, such as 429 or 5xx"),
		"region":     flags.String("region", "", "only those answered in this `REGION`"),
	}
	part.span(flags, "those")
	limit := flags.Int("limit", 50, "`NUMBER` of requests at most, 1 to 200")
	return func(ctx context.Context, c *invocation) error {
		if *limit < 1 || *limit > 200 {
			return misused(c.cmd, "--limit must be from 1 to 200")
		}
		query, err := part.query(c.cmd)
		if err != nil {
			return err
		}
		query.Set("limit", strconv.Itoa(*limit))
		raw, list, err := call[adminapi.Requests](ctx, c.admin, http.MethodGet, "/requests?"+query.Encode(), nil)
		if err != nil {
			return err
		}
		err = c.Print(raw, func(w io.Writer) {
			fmt.Fprintln(w, "TIME\tID\tNODE\tKEY\tMETHOD\tROUTE\tSTATUS\tMS\tREASON")
			for _, q := range list.Items {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%.1f\t%s\n", q.At.UTC().Format(time.RFC3339), output.Plain(q.ID), output.Plain(q.Node),
					output.Plain(q.KeyID), output.Plain(q.Method), cmp.Or(output.Plain(q.Route), "-"), q.Status, q.DurationMS, output.Plain(cmp.Or(q.Reason, q.Error, "-")))
			}
		})
		if len(list.Unreached) > 0 {
			fmt.Fprintf(c.stderr, "not known of %s\n", unreachedText(list.Unreached))
		}
		return err
	}
}
