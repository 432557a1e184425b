// Package handlers says what the handlers ask of the place they run in. Each
// resource has a folder of its own. Errors are abi.Code. Everything is about
// the account of the request's principal: no handler can name another.
package handlers

import "partneredge/wasm/abi"

// Views are the account's data, read-only.
type Views interface {
	Profile() (abi.Profile, error)
	// Insights created after since (0: all), newest first.
	Insights(since int64, limit int, into *abi.Insights) error
	// Firings triggered before before (0: all), newest first.
	Firings(before int64, limit int, into *abi.Firings) error
}

// Subscriptions makes and revokes webhook subscriptions.
type Subscriptions interface {
	// Subscribe returns the reason when the target was refused, "" when the
	// subscription was made; abi.CodeLimit when the account has its most.
	Subscribe(*abi.Subscription) (reason string, err error)
	// Revoke tells whether it had been revoked before; abi.CodeNotFound when
	// the account has no such subscription.
	Revoke(id string) (already bool, err error)
}

// Outbox keeps leads. When it returns nil, the lead is on disk.
type Outbox interface {
	Lead(*abi.Lead) error
	// LeadOnce keeps a lead unless its idempotency key was used before, and says
	// which it was. With a test key nothing is kept.
	LeadOnce(*abi.Once) (abi.Kept, error)
}
