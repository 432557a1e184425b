package console

import "partneredge/edge/adminapi"

// Bounds of the subscriptions of an account on a page: how many are looked at, the newest
// first, and how many are shown, though more when more are active. An account may have 200
// active ones, and any number of revoked ones.
const (
	subscriptionsRead  = 1000
	subscriptionsShown = 100
)

// subscriptions holds what a page shows of an account's subscriptions.
type subscriptions struct {
	Account adminapi.Account
	Items   []adminapi.Webhook // active ones, then revoked ones
	Hidden  int                // revoked ones that are not in Items
	Older   bool               // there are older ones, which were not looked at
}

// subscriptionsOf reads the subscriptions of an account.
func subscriptionsOf(v *visit, a adminapi.Account) (subscriptions, error) {
	var active, revoked []adminapi.Webhook
	older := false
	for h, err := range adminapi.All[adminapi.Webhook](v.Context(), v.api, "/accounts/"+a.ID+"/webhooks", nil) {
		if err != nil {
			return subscriptions{}, err
		}
		if older = len(active)+len(revoked) == subscriptionsRead; older {
			break
		}
		if h.RevokedAt.IsZero() {
			active = append(active, h)
		} else {
			revoked = append(revoked, h)
		}
	}
	shown := min(len(revoked), max(subscriptionsShown-len(active), 0))
	return subscriptions{a, append(active, revoked[:shown]...), len(revoked) - shown, older}, nil
}
