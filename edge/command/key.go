package command

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

func keyOperations() []operation {
	return []operation{
		{name: "create", args: "ACCOUNT", summary: "make a key and print it, once", flags: func(o *operators) {
			o.text("env", "live", "`ENVIRONMENT` of the key: live or test")
			o.text("scopes", "read:agent,read:coaching,read:sentinels,write:webhooks,write:leads", "`SCOPES` by comma")
			o.text("label", "", "`TEXT` to know the key by")
			o.text("allow", "", "`NETWORKS` by comma that it may be used from (default any)")
			o.Int("rate", 100, "`NUMBER` of requests a minute")
			o.Duration("expires", 365*24*time.Hour, "`DURATION` until it expires")
		}, run: func(ctx context.Context, o *operators) error {
			return o.secret(ctx, "/accounts/"+url.PathEscape(o.args[0])+"/keys", map[string]any{
				"environment": o.value("env"), "scopes": byComma(o.value("scopes")), "label": o.value("label"),
				"ip_allowlist": byComma(o.value("allow")), "rate_limit": flagValue[int](o, "rate"),
				"expires_at": time.Now().Add(flagValue[time.Duration](o, "expires")).UTC().Format(time.RFC3339),
			}, "key")
		}},
		{name: "list", args: "ACCOUNT", summary: "list an account's keys, newest first", run: func(ctx context.Context, o *operators) error {
			return o.all(ctx, "/accounts/"+url.PathEscape(o.args[0])+"/keys", "id", "environment", "state", "rate_limit", "expires_at", "label", "scopes")
		}},
		{name: "rotate", args: "KEY", summary: "make a key's successor and print it, once", flags: func(o *operators) {
			o.Duration("grace", 7*24*time.Hour, "`DURATION` that the old key still goes on for")
		}, run: func(ctx context.Context, o *operators) error {
			return o.secret(ctx, "/keys/"+url.PathEscape(o.args[0])+"/rotate",
				map[string]int64{"grace_seconds": int64(flagValue[time.Duration](o, "grace") / time.Second)}, "key")
		}},
		{name: "revoke", args: "KEY", summary: "end a key at once", run: func(ctx context.Context, o *operators) error {
			return o.one(ctx, http.MethodPost, "/keys/"+url.PathEscape(o.args[0])+"/revoke", nil, "id", "state", "revoked_at")
		}},
	}
}

// byComma are the words of a list; none of an empty one.
func byComma(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
