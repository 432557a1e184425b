package fake

import (
	"slices"

	"partneredge/wasm/abi"
	"partneredge/wasm/handlers"
)

var (
	_ handlers.Views         = (*View)(nil)
	_ handlers.Subscriptions = (*View)(nil)
	_ handlers.Outbox        = (*View)(nil)
)

// View is the world as one principal may see it.
type View struct {
	w *Backend
	p abi.Principal
}

// For binds the world to a principal. Calls for an account that there is not
// end in abi.CodeNotFound.
func (w *Backend) For(p abi.Principal) *View { return &View{w, p} }

// enter locks the world and finds the account; leave it with w.mu.Unlock
// whatever it returns.
func (v *View) enter(op abi.Op) (*account, error) {
	v.w.mu.Lock()
	if err := v.w.failing(op); err != nil {
		return nil, err
	}
	a := v.w.accounts[v.p.AccountID]
	if a == nil {
		return nil, abi.CodeNotFound
	}
	return a, nil
}

// Profile reads the agent and the account.
func (v *View) Profile() (abi.Profile, error) {
	a, err := v.enter(abi.OpProfile)
	defer v.w.mu.Unlock()
	if err != nil {
		return abi.Profile{}, err
	}
	return a.profile, nil
}

// Insights created after since (0: all), newest first.
func (v *View) Insights(since int64, limit int, into *abi.Insights) error {
	a, err := v.enter(abi.OpInsights)
	defer v.w.mu.Unlock()
	if err != nil {
		return err
	}
	into.History = len(a.insights) > 0
	into.Items = into.Items[:0]
	for _, it := range a.insights {
		if len(into.Items) < limit && (since == 0 || it.Created > since) {
			into.Items = append(into.Items, it)
		}
	}
	return nil
}

// Firings triggered before before (0: all), newest first.
func (v *View) Firings(before int64, limit int, into *abi.Firings) error {
	a, err := v.enter(abi.OpFirings)
	defer v.w.mu.Unlock()
	if err != nil {
		return err
	}
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

// AddInsight gives an account an insight. An id and a time (now) are made up
// where left out, and the time is put off until no other insight of the
// account has it. It returns the insight as kept; abi.CodeNotFound when there
// is no such account.
func (w *Backend) AddInsight(accountID string, it abi.Insight) (abi.Insight, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[accountID]
	if a == nil {
		return it, abi.CodeNotFound
	}
	if it.ID == "" {
		it.ID = w.newID("ins")
	}
	if it.Created == 0 {
		it.Created = w.now()
	}
	a.insights = insert(a.insights, &it, func(it *abi.Insight) *int64 { return &it.Created })
	return it, nil
}

// AddFiring gives an account a firing, by the rules of AddInsight.
func (w *Backend) AddFiring(accountID string, it abi.Firing) (abi.Firing, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.accounts[accountID]
	if a == nil {
		return it, abi.CodeNotFound
	}
	if it.ID == "" {
		it.ID = w.newID("fir")
	}
	if it.Triggered == 0 {
		it.Triggered = w.now()
	}
	a.firings = insert(a.firings, &it, func(it *abi.Firing) *int64 { return &it.Triggered })
	return it, nil
}

// insert puts it into a list that is newest first, at the first free
// microsecond from its own time on: no two in a list share a time, so a page
// can end between any two.
func insert[T any](list []T, it *T, when func(*T) *int64) []T {
	t := when(it)
	at, taken := slices.BinarySearchFunc(list, *t, func(have T, t int64) int {
		return cmpDescending(*when(&have), t)
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

func cmpDescending(a, b int64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}
