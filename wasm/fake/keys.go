package fake

import (
	"slices"
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

// AllScopes that a key can have.
const AllScopes = abi.ReadAgent | abi.ReadCoaching | abi.ReadSentinels | abi.WriteWebhooks | abi.WriteLeads

// AddKey makes a key of k.AccountID and returns its plaintext and the record.
// What k leaves out is made up: the id, environment (live), rate limit (100)
// and expiry (a year from now). Scopes and allowlist are taken as they are.
func (w *Backend) AddKey(k abi.Key) (token string, made abi.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k.ID == "" {
		k.ID = w.newID("key")
	}
	if k.Environment == "" {
		k.Environment = abi.EnvLive
	}
	if k.RateLimit == 0 {
		k.RateLimit = 100
	}
	if k.Expires == 0 {
		k.Expires = w.now() + Year
	}
	for token == "" {
		var random [apikey.RandomSize]byte
		_, _ = w.random.Read(random[:])
		token = apikey.Mint(k.Environment, &random)
	}
	w.tokens[token], w.keys[k.ID] = &k, &k
	return token, k
}

// RotateKey makes a successor of a key and ends the key itself after grace
// microseconds. abi.CodeNotFound when there is no such key.
func (w *Backend) RotateKey(id string, grace int64) (token string, err error) {
	w.mu.Lock()
	old := w.keys[id]
	if old == nil {
		w.mu.Unlock()
		return "", abi.CodeNotFound
	}
	old.GraceUntil = w.now() + grace
	next := *old
	w.mu.Unlock()
	next.ID, next.GraceUntil, next.Expires = "", 0, 0
	token, _ = w.AddKey(next)
	return token, nil
}

// RevokeKey ends a key at once. abi.CodeNotFound when there is no such key.
func (w *Backend) RevokeKey(id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.keys[id]
	if k == nil {
		return abi.CodeNotFound
	}
	if k.Revoked == 0 {
		k.Revoked = w.now()
	}
	return nil
}

// Key reads the record of a bearer token.
func (w *Backend) Key(token string) (abi.Key, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failing(abi.OpKey); err != nil {
		return abi.Key{}, err
	}
	k := w.tokens[token]
	if k == nil && w.isolated {
		return abi.Key{}, abi.CodeUnavailable
	}
	if k == nil {
		return abi.Key{}, abi.CodeNotFound
	}
	key := *k
	key.Allowlist = slices.Clone(k.Allowlist)
	return key, nil
}

// bucket is a token bucket in whole numbers: level counts units of which
// unitsAToken are one token, and each microsecond adds as many units as the
// key may have requests a minute. So nothing is ever rounded.
type bucket struct {
	level int64
	at    int64
}

const unitsAToken = 60_000_000

// Take spends one token of a key's bucket, which holds limit tokens.
func (w *Backend) Take(keyID string, limit int) (abi.Bucket, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failing(abi.OpTake); err != nil {
		return abi.Bucket{}, err
	}
	now := w.now()
	rate, full := int64(limit), int64(limit)*unitsAToken
	b := w.buckets[keyID]
	if b == nil {
		b = &bucket{level: full, at: now}
		w.buckets[strings.Clone(keyID)] = b
	}
	// A full minute fills any bucket; more would overflow. A clock that was put
	// back adds nothing.
	b.level = min(b.level+rate*min(max(now-b.at, 0), Minute), full)
	b.at = now

	into := abi.Bucket{Limit: limit}
	if b.level >= unitsAToken {
		b.level -= unitsAToken
		into.Allowed = true
	} else {
		into.RetryMS = millisFor(unitsAToken-b.level, rate)
	}
	into.Remaining = int(b.level / unitsAToken)
	into.ResetMS = millisFor(full-b.level, rate)
	return into, nil
}

// millisFor is how long units take to flow in, rounded up; a minute when
// nothing flows.
func millisFor(units, rate int64) int64 {
	if rate == 0 {
		return 60_000
	}
	return (units + rate*1000 - 1) / (rate * 1000)
}
