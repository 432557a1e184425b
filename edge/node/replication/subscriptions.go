package replication

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/places"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/store/signal"
	"partneredge/wasm/abi"
)

// subscriptions implements host.Subscriptions by requests to the origin. What the
// origin may have made of a request that got no answer is revoked again.
type subscriptions struct {
	Config
	asking  sync.Map // ids of those that the origin is asked for now
	givenUp sync.Map // by id, when this process gave a subscription up: its time.Time
	failed  signal.Signal

	underWay places.Places[caller] // requests of partners
}

// caller names the keys whose requests are bounded together: those of an account in one
// environment, so that test keys take no place of a live one.
type caller struct {
	account string
	test    bool
}

// callerOf copies what it keeps of a principal, whose texts are overwritten after its request.
func callerOf(p abi.Principal) caller {
	return caller{strings.Clone(p.AccountID), p.Environment == abi.EnvTest}
}

const (
	abandonEvery = 5 * time.Second
	// settled is the time after which no answer and no repetition of a request is to
	// be expected any more.
	settled = time.Minute
	// maxOfCaller bounds a caller's requests under way. They wait for the origin,
	// and so for name servers of the partner's choice; sandboxes and the link have
	// room for 64 of all accounts.
	maxOfCaller = 8
)

func newSubscriptions(cfg Config) *subscriptions {
	return &subscriptions{Config: cfg, failed: signal.New(), underWay: places.Places[caller]{Each: maxOfCaller}}
}

// Subscribe implements host.Subscriptions.
func (s *subscriptions) Subscribe(ctx context.Context, p abi.Principal, sub *abi.Subscription) (reason string, err error) {
	reply, err := s.subscribe(ctx, p, &wire.SubscribeRequest{Subscription: subscriptionOf(p, sub)})
	return reply.Reason, err
}

// SubscribeOnce implements host.Subscriptions. The origin remembers the idempotency
// key, so that it holds at every node.
func (s *subscriptions) SubscribeOnce(ctx context.Context, p abi.Principal, once *abi.SubscribeOnce) (abi.Subscribed, error) {
	sub := &once.Subscription
	reply, err := s.subscribe(ctx, p, &wire.SubscribeRequest{
		Subscription: subscriptionOf(p, sub),
		Once:         &wire.Once{Name: onceName(p.KeyID, once.Key), Digest: hex.EncodeToString([]byte(local.ShortDigest(once.Digest)))},
	})
	made := abi.Subscribed{Outcome: abi.New, Reason: reply.Reason, ID: sub.ID, Secret: sub.Secret, Created: sub.Created}
	switch before := reply.Repeated; {
	case reply.Conflict:
		made = abi.Subscribed{Outcome: abi.Conflict}
	case before != nil:
		made = abi.Subscribed{Outcome: abi.Repeat, ID: before.ID, Secret: before.Secret, Created: store.Micros(before.CreatedAt)}
	}
	return made, err
}

// onceName names an idempotency key. Neither it nor the API key can be read from it.
func onceName(keyID, idempotencyKey string) string {
	return hex.EncodeToString([]byte(local.IdempotencyName(keyID, idempotencyKey)))
}

// subscribe remembers on disk what it asks for until it knows the answer.
func (s *subscriptions) subscribe(ctx context.Context, p abi.Principal, req *wire.SubscribeRequest) (reply wire.SubscribeReply, err error) {
	if !s.Link.Up() {
		return reply, fmt.Errorf("subscribe: not connected to the origin: %w", host.ErrUnavailable)
	}
	hash, err := s.keyHash(p)
	if err != nil {
		return reply, fmt.Errorf("subscribe: %w", err)
	}
	req.KeyHash = []byte(hash)
	leave, err := s.enter(ctx, p)
	if err != nil {
		return reply, err
	}
	defer leave()
	id := req.Subscription.ID
	s.asking.Store(id, true)
	defer s.asking.Delete(id)
	giveUp := func() {
		s.givenUp.Store(id, time.Now())
		s.asking.Delete(id) // before the signal: run passes over what is asked for
		s.failed.Send()
	}
	intent := local.UnconfirmedSubscription{ID: id, AccountID: req.Subscription.AccountID, KeyHash: hash, At: s.Now()}
	if req.Once != nil {
		intent.Once = req.Once.Name
	}
	if err = s.Store.Unconfirmed.Add(intent); err != nil {
		return reply, fmt.Errorf("subscribe: %w: %w", host.ErrUnavailable, err)
	}
	within, cancel := context.WithTimeout(ctx, s.WriteTimeout)
	defer cancel()
	req.WithinMS = (s.WriteTimeout * 3 / 4).Milliseconds()
	if err = s.Link.Ask(within, wire.VerbSubscribe, req, &reply); errors.Is(err, host.ErrUnavailable) {
		giveUp()
		return reply, err
	}
	if forgotten := s.Store.Unconfirmed.Remove(id); forgotten != nil {
		giveUp() // what is remembered is revoked, so the partner must not be told of it
		return reply, fmt.Errorf("subscribe: %w: %w", host.ErrUnavailable, forgotten)
	}
	return reply, ofRefused(err)
}

// enter begins a request as soon as the caller has fewer than maxOfCaller under way; leave
// must be called at its end.
func (s *subscriptions) enter(ctx context.Context, p abi.Principal) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.PlaceTimeout)
	defer cancel()
	leave, ok := s.underWay.Await(ctx, callerOf(p))
	if !ok {
		err = fmt.Errorf("%d requests of the account are under way: %w", maxOfCaller, host.ErrUnavailable)
	}
	return leave, err
}

// Revoke implements host.Subscriptions.
func (s *subscriptions) Revoke(ctx context.Context, p abi.Principal, id string) (already bool, err error) {
	leave, err := s.enter(ctx, p)
	if err != nil {
		return false, err
	}
	defer leave()
	hash, err := s.keyHash(p)
	if err != nil {
		return false, fmt.Errorf("revoke subscription: %w", err)
	}
	already, err = s.revoke(ctx, &wire.RevokeRequest{AccountID: p.AccountID, ID: id, KeyHash: []byte(hash)})
	return already, ofRefused(err)
}

func (s *subscriptions) revoke(ctx context.Context, req *wire.RevokeRequest) (already bool, err error) {
	within, cancel := context.WithTimeout(ctx, s.WriteTimeout)
	defer cancel()
	var reply wire.RevokeReply
	err = s.Link.Ask(within, wire.VerbRevoke, req, &reply)
	return reply.Already, err
}

// run revokes what partners were not told of, until ctx ends: of this run of the
// node and of the one before.
func (s *subscriptions) run(ctx context.Context) {
	tick, began := time.Tick(abandonEvery), time.Now()
	for {
		all, err := s.Store.Unconfirmed.All()
		if err != nil {
			s.Log.Error("cannot read the notes of unconfirmed subscriptions: none is revoked until then", "err", err)
		}
		for _, one := range all {
			if s.Link.Up() && ctx.Err() == nil && s.hasFailed(one.ID) {
				s.abandon(ctx, one, s.ageOf(one.ID, began))
			}
		}
		again := tick
		if len(all) == 0 {
			again = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-s.failed:
		case <-again:
		}
	}
}

// hasFailed reports whether a subscription that was unconfirmed is so still, and nobody waits
// for its answer: its partner may have been told of it since. The order is the reverse of
// subscribe's.
func (s *subscriptions) hasFailed(id string) bool {
	if _, asking := s.asking.Load(id); asking {
		return false
	}
	unconfirmed, err := s.Store.Unconfirmed.Has(id)
	if err != nil {
		s.Log.Error("cannot look for the note of an unconfirmed subscription", "subscription", id, "err", err)
	}
	return unconfirmed
}

// ageOf returns for how long nobody has waited for a subscription's answer. One that the
// node asked for before it started at began is given up since then. The time is that of the
// monotonic clock, since the other one may be set meanwhile.
func (s *subscriptions) ageOf(id string, began time.Time) time.Duration {
	if at, ok := s.givenUp.Load(id); ok {
		return time.Since(at.(time.Time))
	}
	return time.Since(began)
}

// abandon revokes a subscription that was given up an age ago, or finds that the origin has
// none. A request that is under way may still make it, so that is asked again for a minute. A
// request with an idempotency key is left that minute to be repeated.
func (s *subscriptions) abandon(ctx context.Context, one local.UnconfirmedSubscription, age time.Duration) {
	young := age < settled
	if young && one.Once != "" {
		return
	}
	_, err := s.revoke(ctx, &wire.RevokeRequest{
		AccountID: one.AccountID, ID: one.ID, Once: one.Once, KeyHash: []byte(one.KeyHash), Untold: true,
	})
	switch {
	case err == nil:
		s.Log.Warn("subscription revoked, unless its partner was told of it since", "subscription", one.ID)
	case errors.Is(err, host.ErrNotFound), errors.Is(err, link.ErrInvalid), errors.Is(err, link.ErrRefused):
		if young {
			return
		}
		if one.KeyHash == "" && errors.Is(err, link.ErrRefused) { // an earlier program noted no hash
			s.Log.Error("a subscription that its partner may not know of was not revoked: look at it at the origin",
				"subscription", one.ID, "account", one.AccountID)
		}
	default:
		return
	}
	if err := s.Store.Unconfirmed.Remove(one.ID); err != nil {
		s.Log.Error("cannot remove the note of an unconfirmed subscription: it is asked about again", "subscription", one.ID, "err", err)
		return
	}
	s.givenUp.Delete(one.ID)
}
