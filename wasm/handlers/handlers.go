// Package handlers declares what the handlers need from their host. Each
// resource has a handler in a folder of its own. Errors are of type abi.Code.
// Every call acts on the account of the request's principal; a handler cannot
// name another.
package handlers

import "partneredge/wasm/abi"

// Views reads the account's data.
type Views interface {
	Profile() (abi.Profile, error)
	// Insights lists those created after since (0: all), newest first, at most limit and
	// abi.MaxInsights.
	Insights(since int64, limit int, into *abi.Insights) error
	// Firings lists those triggered before the time before (0: all), newest first, at most
	// limit and abi.MaxFirings.
	Firings(before int64, limit int, into *abi.Firings) error
}

// Subscriptions creates and revokes webhook subscriptions.
type Subscriptions interface {
	// Subscribe returns the reason if the target is refused, "" if the subscription
	// was created. The error is abi.CodeLimit if the account has as many as it may.
	Subscribe(*abi.Subscription) (reason string, err error)
	// SubscribeOnce is Subscribe unless the idempotency key was used before, and returns
	// which of these it was.
	SubscribeOnce(*abi.SubscribeOnce) (abi.Subscribed, error)
	// Revoke reports whether the subscription was revoked before. The error is
	// abi.CodeNotFound if the account has no such subscription.
	Revoke(id string) (already bool, err error)
}

// Outbox keeps leads. A lead is on disk when a call returns without an error.
type Outbox interface {
	Lead(*abi.Lead) error
	// LeadOnce keeps a lead unless its idempotency key was used before, and returns
	// which of these it was, with the lead's id, which is not that in the Once. With a
	// test key it keeps no lead.
	LeadOnce(*abi.Once) (abi.Kept, error)
}
