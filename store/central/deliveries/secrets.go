package deliveries

import (
	"errors"
	"time"

	"partneredge/store/central/db"
)

// ErrNoKey is the error of a Sealer that lacks the key of a secret, which is whole.
var ErrNoKey = errors.New("the key is missing")

// Sealer encrypts the signing secrets of subscriptions, bound to their ids.
type Sealer interface {
	Seal(id, secret string) (sealed string, err error)
	Open(id, sealed string) (secret string, err error) // ErrNoKey, or it is damaged
	Fresh(sealed string) bool                          // false: it should be sealed anew
}

// Plain is a Sealer that keeps secrets as they are.
type Plain struct{}

// Seal implements Sealer.
func (Plain) Seal(_, secret string) (string, error) { return secret, nil }

// Open implements Sealer.
func (Plain) Open(_, sealed string) (string, error) { return sealed, nil }

// Fresh implements Sealer.
func (Plain) Fresh(string) bool { return true }

// SigningColumns are the columns of a subscription that Signing.Scan fills.
const SigningColumns = `secret, old_secret, old_until`

// Signing holds the sealed secrets of a subscription.
type Signing struct {
	Sealed    string
	OldSealed string // "" none
	OldUntil  time.Time
}

// Scan returns where to scan SigningColumns to.
func (s *Signing) Scan() []any { return []any{&s.Sealed, &s.OldSealed, db.Time(&s.OldUntil)} }

// secrets opens what signs for a subscription now, the newest first. A secret
// that cannot be opened is left out and logged: it must keep no other
// subscription waiting.
func (s *Store) secrets(id string, k Signing) []string {
	sealed := []string{k.Sealed}
	if k.OldSealed != "" && s.db.Now().Before(k.OldUntil) {
		sealed = append(sealed, k.OldSealed)
	}
	var all []string
	for _, text := range sealed {
		secret, err := s.sealer.Open(id, text)
		if err != nil {
			s.log.Error("cannot open signing secret", "subscription", id, "err", err)
			continue
		}
		all = append(all, secret)
	}
	return all
}
