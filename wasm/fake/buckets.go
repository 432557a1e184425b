package fake

import (
	"strings"

	"partneredge/wasm/abi"
)

// bucket is a token bucket in whole numbers, so that nothing is ever rounded.
// level counts units, of which unitsPerToken are one token. Each microsecond
// adds as many units as the key may have requests a minute.
type bucket struct {
	level int64
	at    int64 // when level was last updated
}

const unitsPerToken = Minute

// Take spends one token of a key's bucket, which holds limit tokens.
func (b *Backend) Take(keyID string, limit int) (abi.Bucket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.failure(abi.OpTake); err != nil {
		return abi.Bucket{}, err
	}
	now := b.now()
	rate, full := int64(limit), int64(limit)*unitsPerToken
	k := b.buckets[keyID]
	if k == nil {
		k = &bucket{level: full, at: now}
		b.buckets[strings.Clone(keyID)] = k
	}
	// A minute fills any bucket; a longer time would overflow. A clock that was
	// put back adds nothing.
	k.level = min(k.level+rate*min(max(now-k.at, 0), Minute), full)
	k.at = now

	state := abi.Bucket{Limit: limit, Allowed: k.level >= unitsPerToken}
	if state.Allowed {
		k.level -= unitsPerToken
	} else {
		state.RetryMS = millisFor(unitsPerToken-k.level, rate)
	}
	state.Remaining = int(k.level / unitsPerToken)
	state.ResetMS = millisFor(full-k.level, rate)
	return state, nil
}

// millisFor returns how many milliseconds it takes to add units, rounded up; a
// minute if the rate is 0.
func millisFor(units, rate int64) int64 {
	if rate == 0 {
		return 60_000
	}
	return (units + rate*1000 - 1) / (rate * 1000)
}
