package fake

import (
	"cmp"
	"slices"

	"partneredge/wasm/abi"
	"partneredge/wasm/handlers"
)

var (
	_ handlers.Views         = (*View)(nil)
	_ handlers.Subscriptions = (*View)(nil)
	_ handlers.Outbox        = (*View)(nil)
)

// View is a Backend restricted to the account of one principal.
type View struct {
	backend   *Backend
	principal abi.Principal
}

// For returns the view of a principal. If its account does not exist, the calls
// of the view fail with abi.CodeNotFound.
func (b *Backend) For(p abi.Principal) *View { return &View{b, p} }

// enter locks the backend and returns the account. The caller must call leave,
// whatever enter returns.
func (v *View) enter(op abi.Op) (*account, error) {
	v.backend.mu.Lock()
	if err := v.backend.failure(op); err != nil {
		return nil, err
	}
	return v.backend.account(v.principal.AccountID)
}

func (v *View) leave() { v.backend.mu.Unlock() }

// account returns an account, or abi.CodeNotFound. b.mu is held.
func (b *Backend) account(id string) (*account, error) {
	a := b.accounts[id]
	if a == nil {
		return nil, abi.CodeNotFound
	}
	return a, nil
}

// Profile returns the account and its agent.
func (v *View) Profile() (abi.Profile, error) {
	a, err := v.enter(abi.OpProfile)
	defer v.leave()
	if err != nil {
		return abi.Profile{}, err
	}
	return a.profile, nil
}

// Insights lists the insights created after since (0: all), newest first, at most limit
// and abi.MaxInsights.
func (v *View) Insights(since int64, limit int, into *abi.Insights) error {
	a, err := v.enter(abi.OpInsights)
	defer v.leave()
	if err != nil {
		return err
	}
	limit = min(limit, abi.MaxInsights)
	into.History = len(a.insights) > 0
	into.Items = into.Items[:0]
	for _, it := range a.insights {
		if len(into.Items) < limit && (since == 0 || it.Created > since) {
			into.Items = append(into.Items, it)
		}
	}
	return nil
}

// Firings lists the firings triggered before the time before (0: all), newest
// first, at most limit and abi.MaxFirings.
func (v *View) Firings(before int64, limit int, into *abi.Firings) error {
	a, err := v.enter(abi.OpFirings)
	defer v.leave()
	if err != nil {
		return err
	}
	limit = min(limit, abi.MaxFirings)
	into.Items, into.More = into.Items[:0], false
	for _, it := range a.firings {
		if before != 0 && it.Triggered >= before {
			continue
		}
		if into.More = len(into.Items) == limit; into.More {
			break
		}
		into.Items = append(into.Items, it)
	}
	return nil
}

// AddInsight adds an insight to an account and returns it as kept. By default
// the id is generated and the time is now. The time moves to the next one that
// no other insight of the account has. The error is abi.CodeNotFound if there
// is no such account.
func (b *Backend) AddInsight(accountID string, it abi.Insight) (abi.Insight, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := b.account(accountID)
	if err != nil {
		return it, err
	}
	if it.ID == "" {
		it.ID = b.newID("ins")
	}
	it.Created = cmp.Or(it.Created, b.now())
	a.insights = insert(a.insights, &it, func(it *abi.Insight) *int64 { return &it.Created })
	return it, nil
}

// AddFiring adds a firing to an account, by the rules of AddInsight.
func (b *Backend) AddFiring(accountID string, it abi.Firing) (abi.Firing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := b.account(accountID)
	if err != nil {
		return it, err
	}
	if it.ID == "" {
		it.ID = b.newID("fir")
	}
	it.Triggered = cmp.Or(it.Triggered, b.now())
	a.firings = insert(a.firings, &it, func(it *abi.Firing) *int64 { return &it.Triggered })
	return it, nil
}

// insert puts it into a list that is newest first, at the first free
// microsecond from its own time on. No two items share a time, so a page can
// end between any two of them.
func insert[T any](list []T, it *T, when func(*T) *int64) []T {
	t := when(it)
	at, taken := slices.BinarySearchFunc(list, *t, func(have T, t int64) int {
		return cmp.Compare(t, *when(&have))
	})
	for taken {
		*t++
		taken = at > 0 && *when(&list[at-1]) == *t
		if taken {
			at--
		}
	}
	return slices.Insert(list, at, *it)
}
