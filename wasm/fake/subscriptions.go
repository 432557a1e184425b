package fake

import (
	"cmp"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/targeturl"
)

// maxSubscriptions bounds the subscriptions of an account that are not revoked.
const maxSubscriptions = 100

// Subscription is a subscription that the Backend keeps.
type Subscription struct {
	abi.Subscription
	Environment abi.Environment
	Revoked     int64 // 0 if it is not revoked
	// Previous is the secret before the last rotation, which signs as well until PreviousUntil.
	Previous      string
	PreviousUntil int64
}

// Subscribe creates a subscription, or returns the reason why its target is
// refused.
func (v *View) Subscribe(s *abi.Subscription) (reason string, err error) {
	a, err := v.enter(abi.OpSubscribe)
	defer v.leave()
	if err != nil {
		return "", err
	}
	return v.subscribe(a, s)
}

func (v *View) subscribe(a *account, s *abi.Subscription) (reason string, err error) {
	active := 0
	for _, have := range a.subscriptions {
		if have.ID == s.ID {
			return "", nil
		}
		if have.Revoked == 0 && have.Environment == v.principal.Environment {
			active++
		}
	}
	host, _, reason := targeturl.Parse(s.Target)
	if reason == "" {
		reason = v.backend.Guard(host)
	}
	if reason != "" {
		return reason, nil
	}
	if active >= maxSubscriptions {
		return "", abi.CodeLimit
	}
	kept := &Subscription{Environment: abi.Environment(strings.Clone(string(v.principal.Environment)))}
	// The caller may reuse the memory of s, so a frame of its own is kept.
	if err := kept.Parse(s.Append(nil)); err != nil {
		return "", abi.CodeInvalid
	}
	a.subscriptions = append(a.subscriptions, kept)
	return "", nil
}

// SubscribeOnce creates a subscription unless its idempotency key was used within a
// day. That of one that was revoked since is a conflict.
func (v *View) SubscribeOnce(o *abi.SubscribeOnce) (abi.Subscribed, error) {
	a, err := v.enter(abi.OpSubscribeOnce)
	defer v.leave()
	if err != nil {
		return abi.Subscribed{}, err
	}
	s := &o.Subscription
	name := "subscription\x00" + v.principal.KeyID + "\x00" + o.Key
	if before, used := a.idempotency[name]; used && v.backend.now()-before.at < Day {
		if before.digest != o.Digest {
			return abi.Subscribed{Outcome: abi.Conflict}, nil
		}
		for _, have := range a.subscriptions {
			switch {
			case have.ID != before.id:
			case have.Revoked != 0 || have.Previous != "":
				return abi.Subscribed{Outcome: abi.Conflict}, nil
			default:
				return abi.Subscribed{Outcome: abi.Repeat, ID: have.ID, Secret: have.Secret, Created: have.Created}, nil
			}
		}
	}
	if err := v.backend.failure(abi.OpSubscribe); err != nil {
		return abi.Subscribed{}, err
	}
	reason, err := v.subscribe(a, s)
	if err != nil || reason != "" {
		return abi.Subscribed{Outcome: abi.New, Reason: reason}, err
	}
	a.idempotency[name] = idempotency{strings.Clone(o.Digest), strings.Clone(s.ID), v.backend.now()}
	return abi.Subscribed{Outcome: abi.New, ID: s.ID, Secret: s.Secret, Created: s.Created}, nil
}

// Revoke revokes a subscription and reports whether it was revoked before.
func (v *View) Revoke(id string) (already bool, err error) {
	a, err := v.enter(abi.OpRevoke)
	defer v.leave()
	if err != nil {
		return false, err
	}
	for _, s := range a.subscriptions {
		if s.ID != id {
			continue
		}
		already = s.Revoked != 0
		s.Revoked = cmp.Or(s.Revoked, v.backend.now())
		return already, nil
	}
	return false, abi.CodeNotFound
}

// RotateSecret gives a subscription of an account a new secret. The one before signs as well
// for overlap microseconds. The error is abi.CodeNotFound if there is no such subscription.
func (b *Backend) RotateSecret(accountID, id string, overlap int64) (secret string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := b.account(accountID)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(a.subscriptions, func(s *Subscription) bool { return s.ID == id })
	if i < 0 {
		return "", abi.CodeNotFound
	}
	s := a.subscriptions[i]
	switch {
	case s.Revoked != 0:
		return "", errors.New("the subscription is revoked")
	case b.now() < s.PreviousUntil:
		return "", errors.New("the secret before the last rotation signs as well until " + time.UnixMicro(s.PreviousUntil).UTC().Format(time.RFC3339))
	}
	var random [32]byte
	_, _ = b.random.Read(random[:]) // documented never to fail
	s.Previous, s.PreviousUntil = s.Secret, b.now()+overlap
	s.Secret = hex.EncodeToString(random[:])
	return s.Secret, nil
}

// Subscriptions returns the subscriptions of an account, oldest first.
func (b *Backend) Subscriptions(accountID string) (list []Subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.accounts[accountID]; a != nil {
		for _, s := range a.subscriptions {
			list = append(list, *s)
		}
	}
	return list
}
