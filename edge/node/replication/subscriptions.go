package replication

import (
	"context"
	"time"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/wasm/abi"
)

// subscriptions implements host.Subscriptions by requests to the origin.
type subscriptions struct {
	link    *link.Link
	timeout time.Duration
}

// Subscribe implements host.Subscriptions.
func (s subscriptions) Subscribe(ctx context.Context, p abi.Principal, sub *abi.Subscription) (reason string, err error) {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var reply wire.SubscribeReply
	err = s.link.Ask(within, wire.VerbSubscribe, &wire.SubscribeRequest{Subscription: subscriptionOf(p, sub)}, &reply)
	return reply.Reason, err
}

// Revoke implements host.Subscriptions.
func (s subscriptions) Revoke(ctx context.Context, p abi.Principal, id string) (already bool, err error) {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var reply wire.RevokeReply
	err = s.link.Ask(within, wire.VerbRevoke, &wire.RevokeRequest{AccountID: p.AccountID, ID: id}, &reply)
	return reply.Already, err
}
