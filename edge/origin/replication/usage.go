package replication

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central/usage"
	"partneredge/store/ratelimit"
)

const (
	// usageEvery is the time between two writes of what keys were used for.
	usageEvery = 2 * time.Second
	// maxUsageKept bounds the counts that wait to be written. Nodes keep what has no
	// room, and report it again.
	maxUsageKept = 200_000
	// maxUsageOfNode bounds those of one node, which can make keys up, so that there is room
	// for the others'.
	maxUsageOfNode = maxUsageKept / 4
	// lastUsage is the time for the write of an origin that stops.
	lastUsage = 5 * time.Second
)

// keyUsage gathers what nodes report of the use of keys, writes it down every few
// seconds, and confirms it then. Every origin process gets every report: the largest
// count of a counter stays, so it does not matter how many write it.
type keyUsage struct {
	Config
	confirm func(ratelimit.Reporter, wire.Used) error
	limited *logging.Limiter

	mu     sync.Mutex
	counts map[usage.Counter]usage.Count
	ofNode map[string]int          // how many counts there are of each node
	used   map[string]confirmation // of the last report of each node
}

// confirmation names a report that is written, and the node that is told so.
type confirmation struct {
	to     ratelimit.Reporter
	report wire.Used
}

// report gathers a node's report. vouched nodes are believed without the keys' hashes.
func (u *keyUsage) report(from ratelimit.Reporter, vouched bool, r *wire.Usage) error {
	if r == nil {
		return nil
	}
	if len(r.Keys) == 0 || len(r.Keys) > wire.MaxUsageKeys || r.Boot == "" || len(r.Boot) > wire.MaxBootLength {
		return fmt.Errorf("%w: a usage report out of bounds", store.ErrInvalid)
	}
	for id, k := range r.Keys {
		if id == "" || len(id) > wire.MaxKeyIDLength || len(k.KeyHash) > len(store.Key{}.Hash) {
			return fmt.Errorf("%w: a usage report out of bounds", store.ErrInvalid)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.counts)+len(r.Keys) > maxUsageKept || u.ofNode[from.Node]+len(r.Keys) > maxUsageOfNode {
		return fmt.Errorf("%w: %d counts of what keys were used for wait to be written, %d of them of this node",
			store.ErrLimit, len(u.counts), u.ofNode[from.Node])
	}
	if u.counts == nil {
		u.counts, u.ofNode, u.used = make(map[usage.Counter]usage.Count), make(map[string]int), make(map[string]confirmation)
	}
	for id, k := range r.Keys {
		counter := usage.Counter{KeyID: id, Day: r.Day, Node: from.Node, Boot: r.Boot}
		count := usage.Count{Requests: k.Requests, Limited: k.Limited, Hash: k.KeyHash, Vouched: vouched}
		if k.LastUsed > 0 {
			count.LastUsed = time.Unix(k.LastUsed, 0)
		}
		u.add(counter, count)
	}
	u.used[from.Node] = confirmation{from, wire.Used{Boot: r.Boot, Seq: r.Seq}}
	return nil
}

// add gathers a count. u.mu is held.
func (u *keyUsage) add(counter usage.Counter, count usage.Count) {
	kept, known := u.counts[counter]
	if !known {
		u.ofNode[counter.Node]++
	}
	u.counts[counter] = kept.Merge(count)
}

// run writes until ctx ends, and then once more.
func (u *keyUsage) run(ctx context.Context) {
	backoff.Every(ctx, usageEvery, func() { u.write(ctx) })
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastUsage)
	defer cancel()
	u.write(last)
}

// write writes what was gathered, or keeps it.
func (u *keyUsage) write(ctx context.Context) {
	u.mu.Lock()
	counts, ofNode, used := u.counts, u.ofNode, u.used
	u.counts, u.ofNode, u.used = nil, nil, nil
	u.mu.Unlock()
	if len(counts) == 0 && len(used) == 0 {
		return
	}
	refused, err := u.DB.RecordUsage(ctx, counts)
	if err != nil {
		u.limited.Warn("write", "cannot write down what keys were used for", "keys", len(counts), "err", err)
		u.keep(counts, ofNode, used)
		return
	}
	u.refuse(refused)
	for node, c := range used {
		if err := u.confirm(c.to, c.report); err != nil {
			u.Log.Warn("cannot confirm what keys were used for", "node", node, "err", err) // the node asks again
		}
	}
}

// refuse counts what a node is not believed, and warns once of each node and reason
// however many reports have it.
func (u *keyUsage) refuse(refused map[usage.Counter]string) {
	type cause struct{ node, reason string }
	type example struct {
		usage.Counter
		times int
	}
	causes := make(map[cause]example)
	for counter, reason := range refused {
		c := cause{counter.Node, reason}
		causes[c] = example{counter, causes[c].times + 1}
	}
	for c, e := range causes {
		u.ObserveRefusal(c.node, c.reason, e.times)
		u.limited.Warn(c.node+" "+c.reason, "a node's counts of what keys were used for are refused",
			"node", c.node, "reason", c.reason, "counts", e.times, "key", e.KeyID, "day", e.Day)
	}
}

// keep puts what could not be written beside what came in since.
func (u *keyUsage) keep(counts map[usage.Counter]usage.Count, ofNode map[string]int, used map[string]confirmation) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since := u.counts
	maps.Copy(used, u.used)
	u.counts, u.ofNode, u.used = counts, ofNode, used
	for counter, count := range since {
		u.add(counter, count)
	}
}
