package fake

import "partneredge/wasm/abi"

// Demo names what NewDemo creates. The keys are always the same.
type Demo struct {
	AccountID string
	Live      string // plaintext of a live key with every scope
	Test      string // plaintext of a test key with every scope
}

// NewDemo returns a Backend with one live account that has three insights,
// three firings and a key of each environment: enough to try every endpoint.
func NewDemo(now func() int64) (*Backend, Demo) {
	b := New(now)
	p := b.AddAccount(abi.Profile{
		Email: "ana@example.com", FullName: "Ana Lima", AccountName: "Lima Realty", Mode: "live",
	})
	d := Demo{AccountID: p.AccountID}
	d.Live, _ = b.AddKey(abi.Key{AccountID: p.AccountID, Scopes: abi.AllScopes})
	d.Test, _ = b.AddKey(abi.Key{AccountID: p.AccountID, Scopes: abi.AllScopes, Environment: abi.EnvTest})
	base := now()
	for i, it := range []abi.Insight{
		{Headline: "Three leads have waited since Monday", Detail: "Call them before noon."},
		{Headline: "Your listing appointments doubled", Detail: "Keep Tuesday evenings free for them."},
		{Headline: "You are ahead of your yearly goal", Detail: "Eleven of sixteen closings by August."},
	} {
		it.Created = base - int64(3-i)*Day
		_, _ = b.AddInsight(p.AccountID, it) // fails only without the account
	}
	for i, it := range []abi.Firing{
		{Name: "stale_lead", Action: "task_created", Data: []byte(`{"days_idle":4}`)},
		{Name: "price_drop", Action: "email_drafted", Data: []byte(`{"listing":"12 Elm St","drop":15000}`)},
		{Name: "stale_lead", Action: "none", Data: []byte(`{"days_idle":9}`)},
	} {
		it.Triggered = base - int64(3-i)*Day
		_, _ = b.AddFiring(p.AccountID, it)
	}
	return b, d
}
