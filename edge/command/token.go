package command

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
)

func newToken() *cobra.Command {
	return newGroup("token", "make, list and revoke admin tokens",
		newAdminCommand("create", "make an admin token and print it, once", func(flags *pflag.FlagSet) handler {
			name := flags.String("name", "", "`NAME` of who uses it, as the audit log shows it")
			role := flags.String("role", "viewer", "`ROLE`: viewer, operator or admin")
			return func(ctx context.Context, c *invocation) error {
				if err := required(c.cmd, "name"); err != nil {
					return err
				}
				return c.secret(ctx, "/tokens", adminapi.NewToken{Name: name, Role: role}, "token")
			}
		}),
		newListCommand("list", "list all tokens, newest first", "/tokens", "id", "role", "name", "created_at", "revoked_at"),
		newRecordCommand("revoke TOKEN", "end a token at once", "POST /tokens/%s/revoke", nil, "id", "name", "revoked_at"),
	)
}
