package contract

import (
	"sync/atomic"
	"testing"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

// FakeClock is a clock that stands still but for Advance.
type FakeClock struct{ micros atomic.Int64 }

// NewClock starts a clock at 2025-06-15T15:06:40Z.
func NewClock() *FakeClock {
	c := &FakeClock{}
	c.micros.Store(1_750_000_000_000_000)
	return c
}

// Now is in microseconds since the Unix epoch.
func (c *FakeClock) Now() int64 { return c.micros.Load() }

// Advance moves the clock.
func (c *FakeClock) Advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// InMemory is the fixture of a world in fake. now is the world's clock.
func InMemory(w *fake.Backend, now func() int64) Fixture { return inMemory{w, now} }

type inMemory struct {
	w   *fake.Backend
	now func() int64
}

func (f inMemory) Account(_ testing.TB, a Account) string {
	mode := "setup"
	if a.Live {
		mode = "live"
	}
	return f.w.AddAccount(abi.Profile{AccountName: a.Name, Mode: mode, Email: a.Email, FullName: a.Agent}).AccountID
}

func (f inMemory) Key(t testing.TB, accountID string, key Key) string {
	t.Helper()
	k := abi.Key{AccountID: accountID, Environment: abi.Environment(key.Environment), RateLimit: key.RateLimit}
	for _, scope := range key.Scopes {
		bits := map[string]abi.Scopes{
			"read:agent": abi.ReadAgent, "read:coaching": abi.ReadCoaching, "read:sentinels": abi.ReadSentinels,
			"write:webhooks": abi.WriteWebhooks, "write:leads": abi.WriteLeads,
		}
		k.Scopes |= bits[scope]
	}
	for _, network := range key.Allowlist {
		k.Allowlist = append(k.Allowlist, network.String())
	}
	if key.State == Expired {
		k.Expires = f.now() - 1
	}
	token, made := f.w.AddKey(k)
	var err error
	switch key.State {
	case InGrace:
		_, err = f.w.RotateKey(made.ID, 7*fake.Day)
	case GraceExpired:
		_, err = f.w.RotateKey(made.ID, 0)
	case Revoked:
		err = f.w.RevokeKey(made.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (f inMemory) RevokeKey(t testing.TB, token string) {
	t.Helper()
	k, err := f.w.Key(token)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.w.RevokeKey(k.ID); err != nil {
		t.Fatal(err)
	}
}

func (f inMemory) Insights(t testing.TB, accountID string, insights []Insight) {
	t.Helper()
	for _, it := range insights {
		_, err := f.w.AddInsight(accountID, abi.Insight{Headline: it.Headline, Detail: it.Detail, Created: it.Created.UnixMicro()})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f inMemory) Firings(t testing.TB, accountID string, firings []Firing) {
	t.Helper()
	for _, it := range firings {
		_, err := f.w.AddFiring(accountID, abi.Firing{
			Name: it.Name, Action: it.Action, Triggered: it.Triggered.UnixMicro(), Data: []byte(it.Data),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f inMemory) Leads(_ testing.TB, accountID string) (list []Lead) {
	for _, l := range f.w.Leads(accountID) {
		kept := Lead{
			ID: l.ID, FirstName: l.FirstName, LastName: l.LastName, Email: l.Email, Phone: l.Phone,
			ConsentStatus: l.ConsentStatus, ConsentText: l.ConsentText, Environment: string(l.Environment),
		}
		if l.Captured != 0 {
			kept.Captured = time.UnixMicro(l.Captured)
		}
		list = append(list, kept)
	}
	return list
}

func (f inMemory) Subscriptions(_ testing.TB, accountID string) (list []Subscription) {
	for _, s := range f.w.Subscriptions(accountID) {
		list = append(list, Subscription{
			ID: s.ID, TargetURL: s.Target, Environment: string(s.Environment), Events: s.Events, Revoked: s.Revoked != 0,
		})
	}
	return list
}

// OutageOf breaks all that a world answers, for Target.Outage, but for the keys
// of calls before: a world holds every key, as a node holds those in use, so
// only keys that it lacks become unknowable.
func OutageOf(w *fake.Backend) func(testing.TB) func() {
	ops := []abi.Op{abi.OpProfile, abi.OpInsights, abi.OpFirings, abi.OpSubscribe, abi.OpRevoke}
	return func(testing.TB) func() {
		for _, op := range ops {
			w.Break(op, abi.CodeUnavailable)
		}
		w.Isolate(true)
		return func() {
			for _, op := range ops {
				w.Break(op, 0)
			}
			w.Isolate(false)
		}
	}
}
