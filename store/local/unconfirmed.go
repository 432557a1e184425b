package local

import (
	"fmt"
	"time"

	"partneredge/store"
)

// Unconfirmed remembers which subscriptions the origin was asked for while their
// partners have no answer yet. What is still there after a failure or a restart is
// to be revoked, since nobody knows its secret. Each change is on disk before it
// returns; one that fails is not made.
type Unconfirmed struct{ file *file }

// UnconfirmedSubscription is a subscription that the origin may or may not have.
type UnconfirmedSubscription struct {
	ID, AccountID string
	Once          string    // the name of its idempotency key, "" for none
	KeyHash       string    // of its API key; "" if an earlier program asked for it
	At            time.Time // when the origin was asked; only earlier programs go by it
}

const (
	unconfirmedPrefix = "u:"
	maxUnconfirmed    = 10_000
)

// Add remembers a subscription. ErrLimit when too many wait for their end.
func (u *Unconfirmed) Add(s UnconfirmedSubscription) error {
	all, err := u.All()
	if err == nil && len(all) >= maxUnconfirmed {
		err = store.ErrLimit
	}
	if err == nil {
		key := unconfirmedPrefix + s.ID
		v := putText(putText(putInt(newValue(160), s.At.UnixMicro()), s.AccountID), s.Once)
		v = putText(v, s.KeyHash)
		err = u.file.set(key, seal(key, v))
	}
	if err != nil {
		return fmt.Errorf("remember unconfirmed subscription: %w", err)
	}
	return nil
}

// Remove forgets a subscription, which has come to its end.
func (u *Unconfirmed) Remove(id string) error {
	if err := u.file.remove(unconfirmedPrefix + id); err != nil {
		return fmt.Errorf("forget unconfirmed subscription: %w", err)
	}
	return nil
}

// Has reports whether a subscription is remembered.
func (u *Unconfirmed) Has(id string) (bool, error) {
	value, err := u.file.get(unconfirmedPrefix + id)
	if err != nil {
		return false, fmt.Errorf("look for unconfirmed subscription: %w", err)
	}
	return value != "", nil
}

// All returns what is remembered.
func (u *Unconfirmed) All() (all []UnconfirmedSubscription, err error) {
	err = u.file.each(unconfirmedPrefix, "", func(id, value string) bool {
		f := openValue(value)
		s := UnconfirmedSubscription{ID: id, At: time.UnixMicro(f.int()), AccountID: f.text(), Once: f.text()}
		if f.bad {
			return true
		}
		if f.rest != "" {
			s.KeyHash = f.text()
		}
		all = append(all, s)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read unconfirmed subscriptions: %w", err)
	}
	return all, nil
}
