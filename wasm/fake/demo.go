package fake

import "partneredge/wasm/abi"

// Demo is what NewDemo puts into a world. Its keys are the same every time.
type Demo struct {
	AccountID string
	Live      string // plaintext of a live key with every scope
	Test      string // plaintext of a test key with every scope
}

// NewDemo makes a world with one live account that has three insights and three
// firings, and a key of each environment: enough to try every endpoint.
func NewDemo(now func() int64) (*Backend, Demo) {
	w := New(now)
	p := w.AddAccount(abi.Profile{
		Email: "ana@example.com", FullName: "Ana Lima", AccountName: "Lima Realty", Mode: "live",
	})
	d := Demo{AccountID: p.AccountID}
	d.Live, _ = w.AddKey(abi.Key{AccountID: p.AccountID, Scopes: AllScopes})
	d.Test, _ = w.AddKey(abi.Key{AccountID: p.AccountID, Scopes: AllScopes, Environment: abi.EnvTest})
	base := now()
	for i, it := range []abi.Insight{
		{Headline: "Three leads have waited since Monday", Detail: "Call them before noon."},
		{Headline: "Your listing appointments doubled", Detail: "Keep Tuesday evenings free for them."},
		{Headline: "You are ahead of your yearly goal", Detail: "Eleven of sixteen closings by August."},
	} {
		it.Created = base - int64(3-i)*Day
		_, _ = w.AddInsight(p.AccountID, it) // the account is there
	}
	for i, it := range []abi.Firing{
		{Name: "stale_lead", Action: "task_created", Data: []byte(`{"days_idle":4}`)},
		{Name: "price_drop", Action: "email_drafted", Data: []byte(`{"listing":"12 Elm St","drop":15000}`)},
		{Name: "stale_lead", Action: "none", Data: []byte(`{"days_idle":9}`)},
	} {
		it.Triggered = base - int64(3-i)*Day
		_, _ = w.AddFiring(p.AccountID, it)
	}
	return w, d
}
