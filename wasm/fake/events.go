package fake

import (
	"slices"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/event"
)

// Event is an event of an account, with the subscriptions that it is delivered to.
type Event struct {
	event.Head
	Body          []byte // the envelope
	Subscriptions []Subscription
}

// Emit makes an event of an account. By the rules of the service it is delivered to each
// subscription of a live key that has its type and is not revoked, but to none while the
// account is not live. It is made after the account's last event, also while the clock
// stands. The error is abi.CodeNotFound if there is no such account.
func (b *Backend) Emit(accountID, kind string, data any) (Event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := b.account(accountID)
	if err != nil {
		return Event{}, err
	}
	a.eventAt = max(b.now(), a.eventAt+1)
	e := Event{Head: event.Head{ID: b.newID("evt"), Type: kind, AccountID: accountID, CreatedAt: time.UnixMicro(a.eventAt)}}
	if e.Body, err = event.Body(e.Head, data); err != nil {
		return Event{}, err
	}
	if a.profile.Mode != "live" {
		return e, nil
	}
	for _, s := range a.subscriptions {
		if s.Revoked == 0 && s.Environment == abi.EnvLive && slices.Contains(s.Events, kind) {
			e.Subscriptions = append(e.Subscriptions, *s)
		}
	}
	return e, nil
}

// SetDeal moves a deal of an account to a stage and returns the stage that it was in, ""
// for a deal that is new.
func (b *Backend) SetDeal(accountID, id, stage string) (from string, err error) {
	return b.setValue(accountID, "deal "+id, stage)
}

// SetGoal sets the pace of a goal of an account and returns the pace that it had, "" for
// a goal that is new.
func (b *Backend) SetGoal(accountID, id, pace string) (from string, err error) {
	return b.setValue(accountID, "goal "+id, pace)
}

func (b *Backend) setValue(accountID, name, value string) (from string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, err := b.account(accountID)
	if err != nil {
		return "", err
	}
	from = a.values[name]
	a.values[name] = value
	return from, nil
}

// NewID returns a new identifier with a prefix such as "con".
func (b *Backend) NewID(prefix string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newID(prefix)
}
