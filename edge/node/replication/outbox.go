package replication

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

// leadOutbox implements host.Outbox: a lead is on the node's disk when it returns.
type leadOutbox struct{ Config }

// AppendLead implements host.Outbox. A lead that the origin would refuse is not
// kept, so a module cannot acknowledge one.
func (o leadOutbox) AppendLead(ctx context.Context, p abi.Principal, frame []byte) error {
	lead, err := leadOf(p, frame)
	if err != nil {
		return fmt.Errorf("keep lead: %w", err)
	}
	if err := valid.Lead(lead); err != nil {
		return fmt.Errorf("keep lead: %w: %w", host.ErrInvalid, err)
	}
	hash, err := o.keyHash(p)
	if err != nil {
		return fmt.Errorf("keep lead: %w", err)
	}
	body, err := json.Marshal(&store.AcceptedLead{Lead: lead, KeyHash: []byte(hash)})
	if err != nil {
		return fmt.Errorf("keep lead: %w", err)
	}
	err = o.Store.Outbox.Append(ctx, outbox.Item{ID: lead.ID, Body: body})
	if errors.Is(err, store.ErrLimit) {
		return fmt.Errorf("keep lead: outbox is full: %w", host.ErrUnavailable)
	}
	if err == nil {
		o.Counters.Leads("accepted", 1)
	}
	return err
}

// LeadOnce implements host.Outbox. The lead's id is derived from the request, so
// that a node that has forgotten the request, or another one that gets it as
// well, hands the same lead over once more, which the origin keeps once.
func (o leadOutbox) LeadOnce(ctx context.Context, p abi.Principal, once *abi.Once) (abi.Kept, error) {
	keep := func() (local.IdempotencyRecord, error) {
		first := local.IdempotencyRecord{Digest: shortDigest(once.Digest), ID: onceID(p.KeyID, once, o.Now())}
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
	first, repeated, err := o.Store.Idempotency.Do(ctx, local.IdempotencyName(p.KeyID, once.Key), owner, keep)
	switch {
	case err != nil:
		return abi.Kept{}, err
	case shortDigest(first.Digest) != shortDigest(once.Digest): // an earlier program kept long ones
		return abi.Kept{Outcome: abi.Conflict}, nil
	case repeated:
		return abi.Kept{Outcome: abi.Repeat, ID: first.ID}, nil
	}
	return abi.Kept{Outcome: abi.New, ID: first.ID}, nil
}

// maxDigest bounds the digest that is remembered with an idempotency key, in bytes.
const maxDigest = 64

// shortDigest returns a digest as it is remembered: in place of one that is longer than
// maxDigest its hash, for a module may give a whole request.
func shortDigest(digest string) string {
	if len(digest) <= maxDigest {
		return digest
	}
	sum := sha256.Sum256([]byte(digest))
	return string(sum[:])
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
