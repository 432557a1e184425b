package node

import (
	"context"
	"time"

	"partneredge/edge/wire"
	"partneredge/wasm/abi"
)

// subscriptions is host.Subscriptions: the origin makes and revokes them.
type subscriptions struct {
	link    *link
	timeout time.Duration
}

// Subscribe implements host.Subscriptions.
func (s subscriptions) Subscribe(ctx context.Context, p abi.Principal, sub *abi.Subscription) (reason string, err error) {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var reply wire.SubscribeReply
	err = s.link.ask(within, wire.VerbSubscribe, &wire.SubscribeRequest{Subscription: subscriptionOf(p, sub)}, &reply)
	return reply.Reason, err
}

// Revoke implements host.Subscriptions.
func (s subscriptions) Revoke(ctx context.Context, p abi.Principal, id string) (already bool, err error) {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var reply wire.RevokeReply
	err = s.link.ask(within, wire.VerbRevoke, &wire.RevokeRequest{AccountID: p.AccountID, ID: id}, &reply)
	return reply.Already, err
}
