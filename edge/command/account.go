package command

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
)

func newAccount() *cobra.Command {
	columns := []string{"id", "name", "activation_mode", "agent.full_name", "agent.email", "created_at"}
	patch := func(name, summary, mode string) *cobra.Command {
		return newRecordCommand(name+" ACCOUNT", summary, "PATCH /accounts/%s", adminapi.AccountPatch{ActivationMode: &mode}, columns...)
	}
	return newGroup("account", "make, list and show accounts, switch them live",
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
		patch("setup", "set an account to setup: its events are silenced", "setup"),
	)
}
