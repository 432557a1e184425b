// Package requestlog keeps in memory what a node answered lately, so that an operator can
// find the request that a partner asks about. It holds no body, no key and no address, and
// the route in place of the path.
//
// Its memory is bounded by count, and so in bytes, since a record has a fixed size:
//
//	each key                 PerKey requests
//	without a known key      PerShard requests together
//	all                      17 times PerShard requests, of 56 bytes
//	texts (routes, reasons)  512 for each shard, each of 128 bytes at most
//
// Once there are too many, the key that was used the longest ago is forgotten whole.
package requestlog

import (
	"cmp"
	"hash/maphash"
	"slices"

	"partneredge/edge/wire"
)

// Bounds, in requests.
const (
	PerKey   = 256
	PerShard = 4096
	shards   = 16 // of keys; one more holds what has no known key
)

// Log keeps requests that were answered. Its methods may be called from many goroutines at once.
type Log struct {
	seed   maphash.Seed
	shards [shards + 1]shard
}

// New returns an empty log.
func New() *Log {
	l := &Log{seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i].init()
	}
	return l
}

// Add keeps a request. It copies what it keeps of the strings.
func (l *Log) Add(e *wire.AnsweredRequest) {
	if len(e.ID) != idSize {
		return // not of this node
	}
	at, most := shards, PerShard
	if e.KeyID != "" {
		at, most = int(maphash.String(l.seed, e.KeyID)%shards), PerKey
	}
	l.shards[at].add(e, most)
}

// Find returns the request with an id.
func (l *Log) Find(id string) (e wire.AnsweredRequest, found bool) {
	for i := range l.shards {
		if e, found = l.shards[i].find(id); found {
			return e, true
		}
	}
	return wire.AnsweredRequest{}, false
}

// List returns the newest requests of a key and of an account, where "" is any, that keep
// takes, newest first and at most limit.
func (l *Log) List(keyID, accountID string, limit int, keep func(*wire.AnsweredRequest) bool) (all []wire.AnsweredRequest) {
	for i := range l.shards {
		all = l.shards[i].list(all, keyID, accountID, keep)
	}
	slices.SortFunc(all, func(a, b wire.AnsweredRequest) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	return all[:min(len(all), limit)]
}
