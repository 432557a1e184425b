package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
)

func newRequest() *cobra.Command {
	return newGroup("request", "find requests that partners made, by X-Request-Id, key or account",
		newAdminCommand("show REQUEST", "show a request by its X-Request-Id, from the node that answered it", func(*pflag.FlagSet) handler {
			return func(ctx context.Context, c *invocation) error {
				return c.record(ctx, http.MethodGet, c.path("/requests/%s"), nil,
					"id", "at", "node", "region", "key_id", "account_id", "method", "route", "status", "duration_ms", "error", "reason")
			}
		}),
		newAdminCommand("list --account ID", "list the newest requests of an account or a key, from all nodes", defineRequestList),
	)
}

func defineRequestList(flags *pflag.FlagSet) handler {
	account := flags.String("account", "", "`ID` of the account")
	key := flags.String("key", "", "`ID` of the key, in place of --account")
	limit := flags.Int("limit", 50, "`NUMBER` of requests at most, 1 to 200")
	return func(ctx context.Context, c *invocation) error {
		path := "/accounts/" + url.PathEscape(*account) + "/requests"
		switch {
		case (*account == "") == (*key == ""):
			return misused(c.cmd, "give either --account or --key")
		case *limit < 1 || *limit > 200:
			return misused(c.cmd, "--limit must be from 1 to 200")
		case *key != "":
			path = "/keys/" + url.PathEscape(*key) + "/requests"
		}
		raw, list, err := call[adminapi.Requests](ctx, c.admin, http.MethodGet, path+"?limit="+strconv.Itoa(*limit), nil)
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
