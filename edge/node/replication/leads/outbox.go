package leads

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/store/local/outbox"
	"partneredge/store/valid"
	"partneredge/wasm/abi"
	"partneredge/wasm/typeid"
)

// Outbox implements host.Outbox: a lead is on the node's disk when it returns.
type Outbox struct{ cfg Config }

// NewOutbox returns an Outbox that keeps leads in the outbox of the store.
func NewOutbox(cfg Config) Outbox { return Outbox{cfg} }

// AppendLead implements host.Outbox. A lead that the origin would refuse is not
// kept, so a module cannot acknowledge one.
func (o Outbox) AppendLead(ctx context.Context, p abi.Principal, frame []byte) error {
	lead, err := leadOf(p, frame)
	if err != nil {
		return fmt.Errorf("keep lead: %w", err)
	}
	if err := valid.Lead(lead); err != nil {
		return fmt.Errorf("keep lead: %w: %w", host.ErrInvalid, err)
	}
	hash, err := o.cfg.KeyHash(p)
	if err != nil {
		return fmt.Errorf("keep lead: %w", err)
	}
	body, err := json.Marshal(&store.AcceptedLead{Lead: lead, KeyHash: []byte(hash)})
	if err != nil {
		return fmt.Errorf("keep lead: %w", err)
	}
	err = o.cfg.Store.Outbox.Append(ctx, outbox.Item{ID: lead.ID, Body: body})
	if errors.Is(err, store.ErrLimit) {
		return fmt.Errorf("keep lead: outbox is full: %w", host.ErrUnavailable)
	}
	if err == nil {
		o.cfg.Count("accepted", 1)
	}
	return err
}

// consentAhead bounds how far ahead of its lead the time of a consent may lie, in microseconds.
// A time without an offset counts as UTC, which is up to 14 hours behind the clock on the wall.
const consentAhead = 24 * 3600 * int64(1_000_000)

// allowsOutreach reports whether a written consent is on file. One that will be given is none.
func allowsOutreach(l *abi.Lead) bool {
	return l.ConsentStatus == "express_written" && l.Captured <= l.Created+consentAhead
}

// leadOf parses a lead of the principal's and copies what it keeps of frame.
func leadOf(p abi.Principal, frame []byte) (store.Lead, error) {
	var l abi.Lead
	if err := l.Parse(append([]byte(nil), frame...)); err != nil {
		return store.Lead{}, err
	}
	return store.Lead{
		ID: l.ID, AccountID: p.AccountID, KeyID: p.KeyID, Environment: store.Environment(p.Environment),
		FirstName: l.FirstName, LastName: l.LastName, Email: l.Email, Phone: l.Phone,
		ConsentStatus: l.ConsentStatus, ConsentText: l.ConsentText, CapturedAt: store.TimeOf(l.Captured),
		OutreachAllowed: allowsOutreach(&l), CreatedAt: store.TimeOf(l.Created),
	}, nil
}

// LeadOnce implements host.Outbox. The lead's id is derived from the request, so
// that a node that has forgotten the request, or another one that gets it as
// well, hands the same lead over once more, which the origin keeps once.
func (o Outbox) LeadOnce(ctx context.Context, p abi.Principal, once *abi.Once) (abi.Kept, error) {
	keep := func() (local.IdempotencyRecord, error) {
		first := local.IdempotencyRecord{Digest: local.ShortDigest(once.Digest), ID: onceID(p.KeyID, once, o.cfg.Now())}
		if p.Environment != abi.EnvLive {
			return first, nil
		}
		lead := once.Lead
		lead.ID = first.ID
		err := o.AppendLead(ctx, p, lead.Append(nil))
		if errors.Is(err, store.ErrConflict) {
			err = nil // it waits already, made a moment earlier
		}
		return first, err
	}
	owner := string(p.Environment) + " " + p.AccountID
	first, repeated, err := o.cfg.Store.Idempotency.Do(ctx, local.IdempotencyName(p.KeyID, once.Key), owner, keep)
	switch {
	case err != nil:
		return abi.Kept{}, err
	case local.ShortDigest(first.Digest) != local.ShortDigest(once.Digest): // an earlier program kept long ones
		return abi.Kept{Outcome: abi.Conflict}, nil
	case repeated:
		return abi.Kept{Outcome: abi.Repeat, ID: first.ID}, nil
	}
	return abi.Kept{Outcome: abi.New, ID: first.ID}, nil
}

// onceID returns the same id on every node for the same request with the same
// idempotency key on one day (UTC). On the next day, when the idempotency key may
// be used for another lead, the id is another one.
func onceID(keyID string, once *abi.Once, now time.Time) string {
	day := now.UTC().Truncate(24 * time.Hour)
	h := sha256.New()
	for _, part := range []string{"lead once", keyID, once.Key, once.Digest, day.Format(time.DateOnly)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return typeid.Make("lead", day.UnixMilli(), [10]byte(h.Sum(nil)))
}
