// Package grant judges what a node may ask for in the name of a partner's key.
//
// The proof that a partner has shown its key to a node is the key's SHA-256: a node
// has it of the keys that it was shown and of no others. The gate on the node has
// judged the key already; here the origin judges again, since it trusts no node.
package grant

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"partneredge/store"
)

// Bounds of time. Within them an honest node is never refused.
const (
	// Leeway is by how much the clocks of a node and the origin may differ, and for how
	// long a revocation may be on its way to a node that hears the origin.
	Leeway = time.Minute
	// Late is for how long after a key has ended a lead counts that was accepted
	// before. A person judges the lead of a node that was away for longer.
	Late = 7 * 24 * time.Hour
	// Wrong is by how much the time of a lead may lie before its key was made, or ahead
	// of the origin's clock: a node's clock may be wrong by hours.
	Wrong = 24 * time.Hour
)

// Refusal is the reason why something is not granted.
type Refusal string

// Refusals.
const (
	NoHash           Refusal = "no_key_hash"       // nothing proves that the node has seen a key
	UnknownKey       Refusal = "unknown_key"       // no key has this hash
	OtherKey         Refusal = "other_key"         // the hash is not that of the key that is named
	OtherAccount     Refusal = "other_account"     // the key is another account's
	OtherEnvironment Refusal = "other_environment" // the key is of the other environment
	NoScope          Refusal = "no_scope"          // the key lacks the scope
	KeyEnded         Refusal = "key_ended"         // it is revoked, expired, or past its grace
	WrongTime        Refusal = "wrong_time"        // a lead from before its key was made, or from the future
)

// Refusals returns all of them.
func Refusals() []Refusal {
	return []Refusal{NoHash, UnknownKey, OtherKey, OtherAccount, OtherEnvironment, NoScope, KeyEnded, WrongTime}
}

// Error says in words what is wrong.
func (r Refusal) Error() string {
	return string(r) + ": " + map[Refusal]string{
		NoHash:           "nothing proves that the node has seen the key",
		UnknownKey:       "there is no such key",
		OtherKey:         "the hash is another key's",
		OtherAccount:     "the key is another account's",
		OtherEnvironment: "the key is of the other environment",
		NoScope:          "the key lacks the scope",
		KeyEnded:         "the key was revoked or had expired",
		WrongTime:        "the time is from before the key was made, or in the future",
	}[r]
}

// ReasonOf returns the refusal that err wraps.
func ReasonOf(err error) (Refusal, bool) { return errors.AsType[Refusal](err) }

// Claim describes what is asked for, and in the name of which key.
type Claim struct {
	KeyHash     []byte
	KeyID       string // "": that of any key
	AccountID   string
	Environment store.Environment // "": any
	Scope       string            // that the key must have
}

// Judge refuses a claim that key does not grant at now.
func Judge(key store.Key, c Claim, now time.Time) error {
	if err := judge(key, c); err != nil {
		return err
	}
	if !key.RevokedAt.IsZero() || !now.Before(end(key).Add(Leeway)) {
		return KeyEnded
	}
	return nil
}

// JudgeLead refuses a claim that key did not grant when a node accepted a lead. A key
// that has ended since makes no difference until Late.
func JudgeLead(key store.Key, c Claim, accepted, now time.Time) error {
	if err := judge(key, c); err != nil {
		return err
	}
	ended := end(key)
	switch {
	case accepted.Before(key.CreatedAt.Add(-Wrong)), accepted.After(now.Add(Wrong)):
		return WrongTime
	case now.Before(ended):
		return nil
	case accepted.After(ended.Add(Leeway)), now.After(ended.Add(Late)):
		return KeyEnded
	}
	return nil
}

func judge(key store.Key, c Claim) error {
	switch {
	case len(c.KeyHash) == 0:
		return NoHash
	case !bytes.Equal(c.KeyHash, key.Hash[:]), c.KeyID != "" && c.KeyID != key.ID:
		return OtherKey
	case c.AccountID != key.AccountID:
		return OtherAccount
	case c.Environment != "" && c.Environment != key.Environment:
		return OtherEnvironment
	case !slices.Contains(key.Scopes, c.Scope):
		return NoScope
	}
	return nil
}

// end returns when a key ends, or has ended.
func end(key store.Key) time.Time {
	ends := key.ExpiresAt
	for _, t := range []time.Time{key.GraceUntil, key.RevokedAt} {
		if !t.IsZero() && t.Before(ends) {
			ends = t
		}
	}
	return ends
}
