package command

import (
	"context"
	"net/http"
	"net/url"
)

// accountColumns are what is shown of an account.
var accountColumns = [...]string{"id", "name", "activation_mode", "agent.full_name", "agent.email", "created_at"}

func accountOperations() []operation {
	mode := func(to string) func(context.Context, *operators) error {
		return func(ctx context.Context, o *operators) error {
			return o.one(ctx, http.MethodPatch, "/accounts/"+url.PathEscape(o.args[0]), map[string]string{"activation_mode": to}, accountColumns[:]...)
		}
	}
	return []operation{
		{name: "create", summary: "make an account, in setup", flags: func(o *operators) {
			o.text("name", "", "`NAME` of the account")
			o.text("agent", "", "full `NAME` of its agent")
			o.text("email", "", "e-mail `ADDRESS` of its agent")
		}, run: func(ctx context.Context, o *operators) error {
			if err := o.required("name", "agent", "email"); err != nil {
				return err
			}
			return o.one(ctx, http.MethodPost, "/accounts", map[string]any{
				"name": o.value("name"), "agent": map[string]string{"full_name": o.value("agent"), "email": o.value("email")},
			}, accountColumns[:]...)
		}},
		{name: "list", summary: "list all accounts, newest first", run: func(ctx context.Context, o *operators) error {
			return o.all(ctx, "/accounts", "id", "activation_mode", "name", "agent.email")
		}},
		{name: "show", args: "ACCOUNT", summary: "show one account", run: func(ctx context.Context, o *operators) error {
			return o.one(ctx, http.MethodGet, "/accounts/"+url.PathEscape(o.args[0]), nil, accountColumns[:]...)
		}},
		{name: "live", args: "ACCOUNT", summary: "switch an account live: its events are delivered", run: mode("live")},
		{name: "setup", args: "ACCOUNT", summary: "set an account to setup: its events are silenced", run: mode("setup")},
	}
}
