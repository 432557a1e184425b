package command

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
)

func newWebhook() *cobra.Command {
	return newGroup("webhook", "list, show and revoke subscriptions, rotate their secrets",
		newListCommand("list ACCOUNT", "list an account's subscriptions, newest first", "/accounts/%s/webhooks",
			"id", "environment", "state", "target_url", "events", "created_at", "revoked_at"),
		newRecordCommand("show WEBHOOK", "show a subscription", "GET /webhooks/%s", nil,
			"id", "account_id", "key_id", "environment", "state", "target_url", "events", "description", "created_at", "failing_from", "revoked_at"),
		newAdminCommand("rotate WEBHOOK", "make a subscription's new signing secret and print it, once", func(flags *pflag.FlagSet) handler {
			overlap := newSeconds(flags, "overlap", adminapi.SecretOverlap, "`DURATION` for which the secret before signs too; 0s: it ends at once")
			return func(ctx context.Context, c *invocation) error {
				return c.secret(ctx, c.path("/webhooks/%s/rotate-secret"), adminapi.SecretRotation{OverlapSeconds: overlap.count()}, "webhook", "secret")
			}
		}),
		newRecordCommand("revoke WEBHOOK", "end a subscription at once, for good", "POST /webhooks/%s/revoke", nil, "id", "state", "target_url", "revoked_at"),
	)
}
