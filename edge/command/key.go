package command

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
)

func newKey() *cobra.Command {
	return newGroup("key", "make, list, rotate and revoke partners' keys",
		newAdminCommand("create ACCOUNT", "make a key and print it, once", defineKeyCreate),
		newListCommand("list ACCOUNT", "list an account's keys, newest first", "/accounts/%s/keys",
			"id", "environment", "state", "rate_limit", "expires_at", "label", "scopes"),
		newAdminCommand("rotate KEY", "make a key's successor and print it, once", func(flags *pflag.FlagSet) handler {
			grace := flags.Duration("grace", 7*24*time.Hour, "`DURATION` that the old key still goes on for")
			return func(ctx context.Context, c *invocation) error {
				seconds := int64(*grace / time.Second)
				return c.secret(ctx, c.path("/keys/%s/rotate"), adminapi.Rotation{GraceSeconds: &seconds}, "key")
			}
		}),
		newRecordCommand("revoke KEY", "end a key at once", "POST /keys/%s/revoke", nil, "id", "state", "revoked_at"),
	)
}

func defineKeyCreate(flags *pflag.FlagSet) handler {
	environment := flags.String("env", "live", "`ENVIRONMENT` of the key: live or test")
	scopes := flags.String("scopes", strings.Join(adminapi.Scopes(), ","), "`SCOPES` by comma")
	label := flags.String("label", "", "`TEXT` to know the key by")
	allow := flags.String("allow", "", "`NETWORKS` by comma that it may be used from (default any)")
	rate := flags.Int64("rate", 100, "`NUMBER` of requests a minute")
	expires := flags.Duration("expires", 365*24*time.Hour, "`DURATION` until it expires")
	return func(ctx context.Context, c *invocation) error {
		until := time.Now().Add(*expires).UTC().Format(time.RFC3339)
		return c.secret(ctx, c.path("/accounts/%s/keys"), adminapi.NewKey{
			Environment: environment, Scopes: byComma(*scopes), Label: label, IPAllowlist: byComma(*allow), RateLimit: rate, ExpiresAt: &until,
		}, "key")
	}
}

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
