package fake

import (
	"slices"
	"strings"

	"partneredge/wasm/abi"
)

// Lead is a lead that the Backend keeps.
type Lead struct {
	abi.Lead
	Environment abi.Environment
	KeyID       string
}

// idempotency is the outcome of the first request with an idempotency key.
type idempotency struct {
	digest, id string // id of what was made
	at         int64
}

// Lead keeps a lead, unless one with the same id is kept already.
func (v *View) Lead(lead *abi.Lead) error {
	a, err := v.enter(abi.OpLead)
	defer v.leave()
	if err != nil {
		return err
	}
	return v.keep(a, lead)
}

func (v *View) keep(a *account, lead *abi.Lead) error {
	if slices.ContainsFunc(a.leads, func(have Lead) bool { return have.ID == lead.ID }) {
		return nil
	}
	kept := Lead{
		Environment: abi.Environment(strings.Clone(string(v.principal.Environment))),
		KeyID:       strings.Clone(v.principal.KeyID),
	}
	// The caller may reuse the memory of lead, so a frame of its own is kept.
	if err := kept.Parse(lead.Append(nil)); err != nil {
		return abi.CodeInvalid
	}
	a.leads = append(a.leads, kept)
	return nil
}

// LeadOnce keeps a lead, under an id of the Backend's as on a node, unless its
// idempotency key was used within a day. With a test key it records the use of the
// idempotency key and keeps no lead.
func (v *View) LeadOnce(o *abi.Once) (abi.Kept, error) {
	a, err := v.enter(abi.OpLeadOnce)
	defer v.leave()
	if err != nil {
		return abi.Kept{}, err
	}
	name := v.principal.KeyID + "\x00" + o.Key
	before, used := a.idempotency[name]
	if used && v.backend.now()-before.at < Day {
		if before.digest != o.Digest {
			return abi.Kept{Outcome: abi.Conflict}, nil
		}
		return abi.Kept{Outcome: abi.Repeat, ID: before.id}, nil
	}
	lead := o.Lead
	lead.ID = v.backend.newID("lead")
	if v.principal.Environment == abi.EnvLive {
		if err := v.backend.failure(abi.OpLead); err != nil {
			return abi.Kept{}, err
		}
		if err := v.keep(a, &lead); err != nil {
			return abi.Kept{}, err
		}
	}
	a.idempotency[name] = idempotency{strings.Clone(o.Digest), lead.ID, v.backend.now()}
	return abi.Kept{Outcome: abi.New, ID: lead.ID}, nil
}

// Leads returns the leads of an account, oldest first.
func (b *Backend) Leads(accountID string) []Lead {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.accounts[accountID]; a != nil {
		return slices.Clone(a.leads)
	}
	return nil
}
