package command

import (
	"context"
	"flag"
	"net/http"
	"net/url"
)

func tokenOperations() []operation {
	return []operation{
		{name: "create", summary: "make an admin token and print it, once", flags: func(o *operators) {
			o.text("name", "", "`NAME` of who uses it, as the audit log shows it")
			o.text("role", "viewer", "`ROLE`: viewer, operator or admin")
		}, run: func(ctx context.Context, o *operators) error {
			if err := o.required("name"); err != nil {
				return err
			}
			return o.secret(ctx, "/tokens", map[string]string{"name": o.value("name"), "role": o.value("role")}, "token")
		}},
		{name: "list", summary: "list all tokens, newest first", run: func(ctx context.Context, o *operators) error {
			return o.all(ctx, "/tokens", "id", "role", "name", "created_at", "revoked_at")
		}},
		{name: "revoke", args: "TOKEN", summary: "end a token at once", run: func(ctx context.Context, o *operators) error {
			return o.one(ctx, http.MethodPost, "/tokens/"+url.PathEscape(o.args[0])+"/revoke", nil, "id", "name", "revoked_at")
		}},
	}
}

// flagValue is the value of a flag of another type than text.
func flagValue[T any](o *operators, name string) T {
	return o.Lookup(name).Value.(flag.Getter).Get().(T)
}
