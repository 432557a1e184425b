package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
)

func newToken() *cobra.Command {
	return newGroup("token", "make, list and revoke admin tokens",
		newAdminCommand("create", "make an admin token and print it, once", func(flags *pflag.FlagSet) handler {
			name := flags.String("name", "", "`NAME` of who uses it, as the audit log shows it")
			role := flags.String("role", "viewer", "`ROLE`: viewer, operator or admin")
			expires := flags.Duration("expires", 0, "`DURATION` until it expires; 0: never")
			return func(ctx context.Context, c *invocation) error {
				if err := required(c.cmd, "name"); err != nil {
					return err
				}
				in := adminapi.NewToken{Name: name, Role: role}
				if *expires < 0 {
					return misused(c.cmd, "--expires must not be negative")
				}
				if *expires > 0 {
					in.ExpiresAt = new(time.Now().Add(*expires).UTC().Format(time.RFC3339Nano))
				}
				return c.secret(ctx, "/tokens", in, "token", "plaintext")
			}
		}),
		newListCommand("list", "list all tokens, newest first", "/tokens", "id", "role", "name", "created_at", "expires_at", "last_used_at", "revoked_at"),
		newRecordCommand("revoke TOKEN", "end a token at once", "POST /tokens/%s/revoke", nil, "id", "name", "revoked_at"),
	)
}
