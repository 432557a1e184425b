package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
	"partneredge/edge/output"
	"partneredge/store/durable"
)

func newAccount() *cobra.Command {
	columns := []string{"id", "name", "activation_mode", "agent.full_name", "agent.email", "created_at"}
	patch := func(name, summary, mode string) *cobra.Command {
		return newRecordCommand(name+" ACCOUNT", summary, "PATCH /accounts/%s", adminapi.AccountPatch{ActivationMode: &mode}, columns...)
	}
	return newGroup("account", "make, list and show accounts; switch them live; export and delete them",
		newAdminCommand("create", "make an account, in setup", func(flags *pflag.FlagSet) handler {
			name := flags.String("name", "", "`NAME` of the account")
			agent := flags.String("agent", "", "full `NAME` of its agent")
			email := flags.String("email", "", "e-mail `ADDRESS` of its agent")
			return func(ctx context.Context, c *invocation) error {
				if err := required(c.cmd, "name", "agent", "email"); err != nil {
					return err
				}
				in := adminapi.NewAccount{Name: name, Agent: &adminapi.NewAgent{FullName: agent, Email: email}}
				return c.record(ctx, http.MethodPost, "/accounts", in, columns...)
			}
		}),
		newListCommand("list", "list all accounts, newest first", "/accounts", "id", "activation_mode", "name", "agent.email"),
		newRecordCommand("show ACCOUNT", "show one account", "GET /accounts/%s", nil, columns...),
		patch("live", "switch an account live: its events are delivered", "live"),
		newAdminCommand("export ACCOUNT", "write all that is kept of an account as JSON lines", defineAccountExport),
		newAdminCommand("delete ACCOUNT", "delete an account and all that is kept of it, for good", defineAccountDelete),
		patch("setup", "set an account to setup: its events are silenced", "setup"),
	)
}

func defineAccountDelete(flags *pflag.FlagSet) handler {
	sure := flags.Bool("yes", false, "delete it; without the flag nothing is done")
	return func(ctx context.Context, c *invocation) error {
		if !*sure {
			return hint.Add(misused(c.cmd, "its keys, subscriptions, leads, contacts, events and all else of %s would go for good", c.args[0]),
				"say --yes to have it done")
		}
		gone, err := c.admin.EraseAccount(ctx, c.args[0])
		if err != nil {
			return err
		}
		raw, err := json.Marshal(gone)
		if err != nil {
			return err
		}
		return c.Print(raw, func(w io.Writer) {
			fmt.Fprintf(w, "deleted\t%s\n", output.Plain(gone.ID))
			for _, kind := range slices.Sorted(maps.Keys(gone.Erased)) {
				fmt.Fprintf(w, "%s\t%d\n", output.Plain(kind), gone.Erased[kind])
			}
		})
	}
}

func defineAccountExport(flags *pflag.FlagSet) handler {
	out := flags.String("out", "", "`FILE` that is made, mode 0600, once the export is whole (default: standard output)")
	return func(ctx context.Context, c *invocation) error {
		if *out == "" {
			_, err := exportTo(ctx, c, c.Out)
			return err
		}
		var end adminapi.ExportEnd
		err := durable.Disk{}.Write(*out, 0o600, func(w io.Writer) (err error) {
			end, err = exportTo(ctx, c, w)
			return err
		})
		if err != nil {
			return hint.Add(fmt.Errorf("exporting to %s: %w", output.Plain(*out), err), "nothing was written there; run it again")
		}
		raw, err := json.Marshal(end)
		if err != nil {
			return err
		}
		return c.Print(raw, func(w io.Writer) {
			fmt.Fprintf(w, "exported\t%s\n", output.Plain(*out))
			for _, kind := range slices.Sorted(maps.Keys(end.Counts)) {
				fmt.Fprintf(w, "%s\t%d\n", output.Plain(kind), end.Counts[kind])
			}
		})
	}
}

// exportTo writes the lines of an account's export, the last of which counts the others.
func exportTo(ctx context.Context, c *invocation, w io.Writer) (end adminapi.ExportEnd, err error) {
	out := bufio.NewWriter(w)
	if end, err = c.admin.ExportAccount(ctx, c.args[0], func(line json.RawMessage) error { return output.WriteJSON(out, line) }); err != nil {
		return end, err
	}
	last, err := json.Marshal(adminapi.Exported[adminapi.ExportEnd]{Kind: adminapi.ExportedEnd, Record: end})
	if err != nil {
		return end, err
	}
	return end, errors.Join(output.WriteJSON(out, last), out.Flush())
}

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
	scopes := flags.String("scopes", strings.Join(adminapi.Scopes(), ","), "`SCOPES` by comma; also own ones of modules, such as x:quotes")
	label := flags.String("label", "", "`TEXT` to know the key by")
	allow := flags.String("allow", "", "`NETWORKS` by comma that it may be used from (default any)")
	rate := flags.Int64("rate", adminapi.KeyRate, "`NUMBER` of requests a minute")
	expires := flags.Duration("expires", adminapi.KeyLifetime, "`DURATION` until it expires")
	return func(ctx context.Context, c *invocation) error {
		until := time.Now().Add(*expires).UTC().Format(time.RFC3339)
		return c.secret(ctx, c.path("/accounts/%s/keys"), adminapi.NewKey{
			Environment: environment, Scopes: byComma(*scopes), Label: label, IPAllowlist: byComma(*allow), RateLimit: rate, ExpiresAt: &until,
		}, "key", "plaintext")
	}
}

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
