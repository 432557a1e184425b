package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/output"
)

func newKey() *cobra.Command {
	return newGroup("key", "make, list, rotate and revoke partners' keys",
		newAdminCommand("create ACCOUNT", "make a key and print it, once", defineKeyCreate),
		newListCommand("list ACCOUNT", "list an account's keys, newest first", "/accounts/%s/keys",
			"id", "environment", "state", "rate_limit", "expires_at", "usage.last_used_at", "usage.requests", "usage.limited", "label", "scopes"),
		newAdminCommand("expiring", "list the keys of all accounts that expire soon, the first to expire first", func(flags *pflag.FlagSet) handler {
			within := flags.Duration("within", adminapi.ExpiresSoon, "`DURATION` in which they expire")
			return func(ctx context.Context, c *invocation) error {
				before := time.Now().Add(*within).UTC().Format(time.RFC3339)
				return c.list(ctx, "/keys", url.Values{"expires_before": {before}}, 0, "id", "account_id", "environment", "expires_at", "usage.last_used_at", "label")
			}
		}),
		newRecordCommand("show KEY", "show a key without its plaintext", "GET /keys/%s", nil,
			"id", "account_id", "environment", "state", "label", "scopes", "ip_allowlist", "rate_limit", "created_at", "expires_at", "grace_until", "revoked_at", "successor_id",
			"usage.last_used_at", "usage.requests", "usage.limited"),
		newAdminCommand("usage KEY", "list the days on which a key was used, with requests and 429s, newest first", func(flags *pflag.FlagSet) handler {
			days := flags.Int("days", adminapi.UsageDays, "`NUMBER` of days up to today, 1 to 90")
			return func(ctx context.Context, c *invocation) error {
				return c.list(ctx, c.path("/keys/%s/usage"), url.Values{"days": {strconv.Itoa(*days)}}, 0, "day", "requests", "limited")
			}
		}),
		newAdminCommand("rotate KEY", "make a key's successor and print it, once", func(flags *pflag.FlagSet) handler {
			grace := newSeconds(flags, "grace", adminapi.KeyGrace, "`DURATION` that the old key still goes on for")
			return func(ctx context.Context, c *invocation) error {
				return c.secret(ctx, c.path("/keys/%s/rotate"), adminapi.Rotation{GraceSeconds: grace.count()}, "key", "plaintext")
			}
		}),
		newAdminCommand("revoke KEY", "end a key at once, and list the subscriptions made with it, which go on", func(*pflag.FlagSet) handler { return revokeKey }),
	)
}

func revokeKey(ctx context.Context, c *invocation) error {
	raw, key, err := call[adminapi.Key](ctx, c.admin, http.MethodPost, c.path("/keys/%s/revoke"), nil)
	if err != nil {
		return err
	}
	return c.Print(raw, func(w io.Writer) {
		output.Fields(w, raw, "id", "state", "revoked_at")
		for _, s := range key.Webhooks {
			fmt.Fprintf(w, "goes on\t%s  %s\n", output.Plain(s.ID), output.Plain(s.TargetURL))
		}
	})
}

func defineKeyCreate(flags *pflag.FlagSet) handler {
	environment := flags.String("env", "live", "`ENVIRONMENT` of the key: live or test")
	flags.String("scopes", strings.Join(adminapi.Scopes(), ","), "`SCOPES` by comma; also own ones of modules, such as x:quotes")
	label := flags.String("label", "", "`TEXT` to know the key by")
	flags.String("allow", "", "`NETWORKS` by comma that it may be used from (default any)")
	rate := flags.Int64("rate", adminapi.KeyRate, "`NUMBER` of requests a minute")
	expires := flags.Duration("expires", adminapi.KeyLifetime, "`DURATION` until it expires")
	return func(ctx context.Context, c *invocation) error {
		until := time.Now().Add(*expires).UTC().Format(time.RFC3339)
		in := adminapi.NewKey{Environment: environment, Label: label, RateLimit: rate, ExpiresAt: &until}
		if err := wordsOf(c.cmd, map[string]*[]string{"scopes": &in.Scopes, "allow": &in.IPAllowlist}); err != nil {
			return err
		}
		return c.secret(ctx, c.path("/accounts/%s/keys"), in, "key", "plaintext")
	}
}
