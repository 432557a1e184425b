package fake

import (
	"cmp"
	"slices"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

// AddKey creates a key of k.AccountID and returns its plaintext and its record.
// Fields that k leaves out get defaults: the id is generated, the environment
// is live, the rate limit is 100, and the key expires in a year. Scopes and
// Allowlist are used as they are.
func (b *Backend) AddKey(k abi.Key) (token string, created abi.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addKey(k)
}

func (b *Backend) addKey(k abi.Key) (token string, created abi.Key) {
	if k.ID == "" {
		k.ID = b.newID("key")
	}
	k.Environment = cmp.Or(k.Environment, abi.EnvLive)
	k.RateLimit = cmp.Or(k.RateLimit, 100)
	k.Expires = cmp.Or(k.Expires, b.now()+Year)
	for token == "" {
		var random [apikey.RandomSize]byte
		_, _ = b.random.Read(random[:])
		token = apikey.Mint(k.Environment, &random)
	}
	b.tokens[token], b.keys[k.ID] = &k, &k
	return token, k
}

// RotateKey creates a successor of a key. The old key stays valid for grace
// microseconds. The error is abi.CodeNotFound if there is no such key.
func (b *Backend) RotateKey(id string, grace int64) (token string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	old := b.keys[id]
	if old == nil {
		return "", abi.CodeNotFound
	}
	old.GraceUntil = b.now() + grace
	next := *old
	next.ID, next.GraceUntil, next.Expires = "", 0, 0
	token, _ = b.addKey(next)
	return token, nil
}

// RevokeKey ends a key at once. The error is abi.CodeNotFound if there is no
// such key.
func (b *Backend) RevokeKey(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.keys[id]
	if k == nil {
		return abi.CodeNotFound
	}
	k.Revoked = cmp.Or(k.Revoked, b.now())
	return nil
}

// Key returns the record of a bearer token.
func (b *Backend) Key(token string) (abi.Key, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failure(abi.OpKey); err != nil {
		return abi.Key{}, err
	}
	k := b.tokens[token]
	if k == nil && b.outage {
		return abi.Key{}, abi.CodeUnavailable
	}
	if k == nil {
		return abi.Key{}, abi.CodeNotFound
	}
	key := *k
	key.Allowlist = slices.Clone(k.Allowlist)
	return key, nil
}
