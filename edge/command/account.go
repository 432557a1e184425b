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
	"slices"

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
		patch("setup", "set an account to setup: its events are silenced, and deliveries that fall due meanwhile are cancelled", "setup"),
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
		return c.Value(gone, func(w io.Writer) {
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
		if err := filled(c.cmd, "out"); err != nil {
			return err
		}
		if *out == "" {
			_, err := exportTo(ctx, c, c.Out)
			return err
		}
		file, err := outFile(*out, "leave --out away for standard output")
		if err != nil {
			return fmt.Errorf("exporting: %w", err)
		}
		var end adminapi.ExportEnd
		err = durable.Disk{}.Write(file, 0o600, func(w io.Writer) (err error) {
			end, err = exportTo(ctx, c, w)
			return err
		})
		if err != nil {
			return hint.Add(fmt.Errorf("exporting to %s: %w", output.Plain(*out), err), "nothing was written there; run it again")
		}
		return c.Value(end, func(w io.Writer) {
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
