package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
)

func newLead() *cobra.Command {
	columns := []string{"id", "lead_id", "account_id", "key_id", "node_id", "state", "reason", "size", "received_at", "settled_at"}
	return newGroup("lead", "list and delete leads, and look after those that were refused",
		newListCommand("list ACCOUNT", "list an account's leads, the last handed over first", "/accounts/%s/leads",
			"id", "created_at", "first_name", "last_name", "email", "phone", "consent_status"),
		newRecordCommand("delete LEAD", "delete a lead for good, as when a person asks to be forgotten", "DELETE /leads/%s", nil, "id", "account_id"),
		newGroup("quarantine", "list, show, release and discard leads that the origin refused",
			newAdminCommand("list", "list the leads that wait in the quarantine, newest first", func(flags *pflag.FlagSet) handler {
				part := selection{}
				part.span(flags, "those that came in")
				return func(ctx context.Context, c *invocation) error {
					query, err := part.query(c.cmd)
					if err != nil {
						return err
					}
					return c.list(ctx, "/quarantine", query, 0, "id", "lead_id", "account_id", "node_id", "received_at", "reason")
				}
			}),
			newAdminCommand("show QUARANTINED", "show a lead of the quarantine as it was received", func(*pflag.FlagSet) handler {
				return func(ctx context.Context, c *invocation) error { return showQuarantined(ctx, c, columns) }
			}),
			newAdminCommand("release QUARANTINED", "keep a lead of the quarantine, mended, as if it came from its node", func(flags *pflag.FlagSet) handler {
				set := flags.StringArray("set", nil, "`FIELD=VALUE` in place of what was received; again for another field")
				return func(ctx context.Context, c *invocation) error {
					in, err := mending(c.cmd, *set)
					if err != nil {
						return err
					}
					return c.record(ctx, http.MethodPost, c.path("/quarantine/%s/release"), in, columns...)
				}
			}),
			newRecordCommand("discard QUARANTINED", "give a lead of the quarantine up", "DELETE /quarantine/%s", nil, columns...),
		),
	)
}

func showQuarantined(ctx context.Context, c *invocation, columns []string) error {
	raw, q, err := call[adminapi.QuarantinedLead](ctx, c.admin, http.MethodGet, c.path("/quarantine/%s"), nil)
	if err != nil {
		return err
	}
	return c.Print(raw, func(w io.Writer) {
		output.Fields(w, raw, columns...)
		if q.Body != nil {
			fmt.Fprintf(w, "body\t%q\n", *q.Body) // quoted, since it may be anything
		}
	})
}

// mending reads fields of a lead as the admin API takes them.
func mending(cmd *cobra.Command, set []string) (map[string]any, error) {
	in := make(map[string]any)
	for _, s := range set {
		name, value, found := strings.Cut(s, "=")
		if !found {
			return nil, misused(cmd, "--set %q is not FIELD=VALUE", s)
		}
		in[name] = value
		if name != "outreach_allowed" {
			continue
		}
		allowed, err := strconv.ParseBool(value)
		if err != nil {
			return nil, misused(cmd, "outreach_allowed is true or false")
		}
		in[name] = allowed
	}
	return in, nil
}
