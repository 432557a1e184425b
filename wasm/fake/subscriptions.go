package fake

import (
	"slices"
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/targeturl"
)

// Subscription as it is kept.
type Subscription struct {
	abi.Subscription
	Environment abi.Environment
	Revoked     int64 // 0 when it is not
}

// Lead as it is kept.
type Lead struct {
	abi.Lead
	Environment abi.Environment
	KeyID       string
}

// Subscribe makes a subscription, or tells why its target was refused.
func (v *View) Subscribe(s *abi.Subscription) (reason string, err error) {
	a, err := v.enter(abi.OpSubscribe)
	defer v.w.mu.Unlock()
	if err != nil {
		return "", err
	}
	active := 0
	for _, have := range a.subscriptions {
		if have.ID == s.ID {
			return "", nil
		}
		if have.Revoked == 0 {
			active++
		}
	}
	host, _, reason := targeturl.Parse(s.Target)
	if reason == "" {
		guard := v.w.Guard
		if guard == nil {
			guard = PublicOnly
		}
		reason = guard(host)
	}
	if reason != "" {
		return reason, nil
	}
	most := v.w.MaxSubscriptions
	if most == 0 {
		most = 100
	}
	if active >= most {
		return "", abi.CodeLimit
	}
	kept := &Subscription{Environment: abi.Environment(strings.Clone(string(v.p.Environment)))}
	// What is kept must share nothing with the request; a frame of its own does.
	if err := kept.Parse(s.Append(nil)); err != nil {
		return "", abi.CodeInvalid
	}
	a.subscriptions = append(a.subscriptions, kept)
	return "", nil
}

// Revoke tells whether the subscription had been revoked before.
func (v *View) Revoke(id string) (already bool, err error) {
	a, err := v.enter(abi.OpRevoke)
	defer v.w.mu.Unlock()
	if err != nil {
		return false, err
	}
	for _, s := range a.subscriptions {
		if s.ID == id {
			already = s.Revoked != 0
			if !already {
				s.Revoked = v.w.now()
			}
			return already, nil
		}
	}
	return false, abi.CodeNotFound
}

// Lead keeps a lead. One with the same id is kept already.
func (v *View) Lead(lead *abi.Lead) error {
	a, err := v.enter(abi.OpLead)
	defer v.w.mu.Unlock()
	if err != nil {
		return err
	}
	for i := range a.leads {
		if a.leads[i].ID == lead.ID {
			return nil
		}
	}
	kept := Lead{
		Environment: abi.Environment(strings.Clone(string(v.p.Environment))),
		KeyID:       strings.Clone(v.p.KeyID),
	}
	if err := kept.Parse(lead.Append(nil)); err != nil {
		return abi.CodeInvalid
	}
	a.leads = append(a.leads, kept)
	return nil
}

// first is what was first asked with an idempotency key, and what came of it.
type first struct {
	digest, id string
	at         int64
}

// LeadOnce keeps a lead unless its idempotency key was used within a day. With
// a test key it remembers the key, and keeps nothing else.
func (v *View) LeadOnce(o *abi.Once) (abi.Kept, error) {
	a, err := v.enter(abi.OpLeadOnce)
	if err != nil {
		v.w.mu.Unlock()
		return abi.Kept{}, err
	}
	name := v.p.KeyID + "\x00" + o.Key
	before, used := a.firsts[name]
	if used && v.w.now()-before.at < Day {
		v.w.mu.Unlock()
		if before.digest != o.Digest {
			return abi.Kept{Outcome: abi.Conflict}, nil
		}
		return abi.Kept{Outcome: abi.Repeat, ID: before.id}, nil
	}
	if a.firsts == nil {
		a.firsts = map[string]first{}
	}
	a.firsts[name] = first{strings.Clone(o.Digest), strings.Clone(o.Lead.ID), v.w.now()}
	v.w.mu.Unlock()
	if v.p.Environment == abi.EnvLive {
		if err := v.Lead(&o.Lead); err != nil {
			v.w.mu.Lock()
			delete(a.firsts, name)
			v.w.mu.Unlock()
			return abi.Kept{}, err
		}
	}
	return abi.Kept{Outcome: abi.New, ID: o.Lead.ID}, nil
}

// Subscriptions of an account, the first made first.
func (w *Backend) Subscriptions(accountID string) []Subscription {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Subscription
	if a := w.accounts[accountID]; a != nil {
		for _, s := range a.subscriptions {
			list = append(list, *s)
		}
	}
	return list
}

// Leads of an account, the first kept first.
func (w *Backend) Leads(accountID string) []Lead {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.accounts[accountID]; a != nil {
		return slices.Clone(a.leads)
	}
	return nil
}
