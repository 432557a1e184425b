package contract

import (
	"testing"
	"time"

	"partneredge/wasm/fake"
	"partneredge/wasm/sandboxctl"
)

// Commands executes the commands of package sandboxctl, in this process or in a
// sandbox program.
type Commands interface {
	Do(sandboxctl.Command) (sandboxctl.Answer, error)
}

// InMemory returns a target whose data is in a backend of this process. The
// caller sets Send.
func InMemory(t testing.TB, b *fake.Backend, clock *fake.Clock) Target {
	return Commanded(t, sandboxctl.Controller{Backend: b, Clock: clock})
}

// Commanded returns a target whose data is changed by commands. The caller sets
// Send.
func Commanded(t testing.TB, commands Commands) Target {
	c := commanded{commands}
	return Target{
		Clients: true,
		Fixture: c,
		Advance: func(d time.Duration) {
			c.do(t, sandboxctl.Command{Do: "advance", Milliseconds: d.Milliseconds()})
		},
		Outage: func(t testing.TB) func() {
			c.do(t, sandboxctl.Command{Do: "outage", On: true})
			return func() { c.do(t, sandboxctl.Command{Do: "outage"}) }
		},
	}
}

// commanded implements Fixture by commands.
type commanded struct{ Commands }

func (c commanded) do(t testing.TB, command sandboxctl.Command) sandboxctl.Answer {
	t.Helper()
	answer, err := c.Do(command)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (c commanded) Account(t testing.TB, a Account) string {
	t.Helper()
	return c.do(t, sandboxctl.Command{Do: "account", Name: a.Name, Live: a.Live, Email: a.Email, Agent: a.Agent}).ID
}

func (c commanded) Key(t testing.TB, account string, k Key) string {
	t.Helper()
	command := sandboxctl.Command{
		Do: "key", Account: account, Environment: k.Environment, Scopes: k.Scopes, RateLimit: k.RateLimit, State: k.State,
	}
	for _, network := range k.Allowlist {
		command.Allowlist = append(command.Allowlist, network.String())
	}
	return c.do(t, command).Key
}

func (c commanded) RevokeKey(t testing.TB, token string) {
	t.Helper()
	c.do(t, sandboxctl.Command{Do: "revoke", Key: token})
}

func (c commanded) Insights(t testing.TB, account string, insights []Insight) {
	t.Helper()
	c.do(t, sandboxctl.Command{Do: "insights", Account: account, Insights: insights})
}

func (c commanded) Firings(t testing.TB, account string, firings []Firing) {
	t.Helper()
	c.do(t, sandboxctl.Command{Do: "firings", Account: account, Firings: firings})
}

func (c commanded) Leads(t testing.TB, account string) []Lead {
	t.Helper()
	return c.do(t, sandboxctl.Command{Do: "leads", Account: account}).Leads
}

func (c commanded) Subscriptions(t testing.TB, account string) []Subscription {
	t.Helper()
	return c.do(t, sandboxctl.Command{Do: "subscriptions", Account: account}).Subscriptions
}
