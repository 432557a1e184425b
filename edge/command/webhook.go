package command

import "github.com/spf13/cobra"

func newWebhook() *cobra.Command {
	return newGroup("webhook", "list and show subscriptions",
		newListCommand("list ACCOUNT", "list an account's subscriptions, newest first", "/accounts/%s/webhooks",
			"id", "environment", "state", "target_url", "events", "created_at", "revoked_at"),
		newRecordCommand("show WEBHOOK", "show a subscription", "GET /webhooks/%s", nil,
			"id", "account_id", "key_id", "environment", "state", "target_url", "events", "description", "created_at", "failing_from", "revoked_at"),
	)
}
