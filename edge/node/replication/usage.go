package replication

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"partneredge/edge/logging"
	"partneredge/edge/wire"
	"partneredge/store"
)

const (
	// usageEvery is the time between two reports of a key's usage.
	usageEvery = 5 * time.Second
	// maxUsageTries bounds how often the time doubles after which a report that was not
	// confirmed is sent again.
	maxUsageTries = 4
	// maxCounted bounds the keys of one counter.
	maxCounted = 100_000
	// maxCounters bounds the counters of which the origin has not confirmed all.
	maxCounters = 8
)

// usage counts what keys are used for, and reports it until an origin confirms it.
// A report holds the totals of some keys, and the next one follows its confirmation.
// What a node that is killed has not reported is lost: a few seconds.
type usage struct {
	now      func() time.Time
	hash     func(keyID string) string
	warnings *logging.Limiter

	mu       sync.Mutex
	counters []*usageCounter // of which not all is confirmed, and that of today

	sent     *wire.Usage // which is not confirmed yet; of run alone, as the rest
	seq      int64
	tries    int
	due, end time.Time // sent is sent again; the next report may follow
}

// usageCounter counts a day's requests by key.
type usageCounter struct {
	boot    string
	day     store.Day
	keys    map[string]*keyUsage
	changed []string // since they were reported
}

// keyUsage holds the totals of one key, and whether they rose since the last report.
type keyUsage struct {
	wire.UsageKey
	changed bool
}

func newUsageCounter(day store.Day) *usageCounter {
	return &usageCounter{boot: rand.Text(), day: day, keys: make(map[string]*keyUsage)}
}

// count counts a request with a key that the limit admitted or refused.
func (u *usage) count(keyID string, limited bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	c := u.counter(store.DayOf(now))
	k := c.keys[keyID]
	if k == nil {
		k = new(keyUsage)
		c.keys[keyID] = k
	}
	if len(k.KeyHash) == 0 { // it may not have been held at the first request
		k.KeyHash = []byte(u.hash(keyID))
	}
	k.Requests++
	if limited {
		k.Limited++
	}
	k.LastUsed = now.Unix()
	if !k.changed {
		k.changed = true
		c.changed = append(c.changed, keyID)
	}
}

// counter returns the counter of a day. A day has several if more keys are used than
// one counter may hold.
func (u *usage) counter(day store.Day) *usageCounter {
	for _, c := range slices.Backward(u.counters) { // the clock may go back to the day before
		if c.day == day && len(c.keys) < maxCounted {
			return c
		}
	}
	if len(u.counters) == maxCounters {
		u.dropOldest()
	}
	c := newUsageCounter(day)
	u.counters = append(u.counters, c)
	return c
}

// dropOldest drops the oldest counter that is reported, or else the oldest.
func (u *usage) dropOldest() {
	i := slices.IndexFunc(u.counters, func(c *usageCounter) bool { return len(c.changed) == 0 })
	if i < 0 {
		i = 0
		u.warnings.Warn("usage", "counts of what keys were used for are dropped: the origin confirms none",
			"day", u.counters[i].day, "keys", len(u.counters[i].changed))
	}
	u.counters = slices.Delete(u.counters, i, i+1)
}

// next returns the report that is due, nil if there is none.
func (u *usage) next() *wire.Usage {
	now := time.Now() // which no change of the clock moves
	switch {
	case u.sent != nil && now.Before(u.due), u.sent == nil && now.Before(u.end):
		return nil
	case u.sent == nil:
		u.tries = 0
		if u.sent = u.collect(); u.sent == nil {
			return nil
		}
	}
	u.due = now.Add(usageEvery << u.tries)
	u.tries = min(u.tries+1, maxUsageTries)
	if len(u.sent.Keys) < wire.MaxUsageKeys {
		u.end = now.Add(usageEvery)
	}
	return u.sent
}

// collect returns a report of keys that were used since their last one, of the oldest
// counter that has some.
func (u *usage) collect() *wire.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget()
	for _, c := range u.counters {
		if len(c.changed) == 0 {
			continue
		}
		u.seq++
		report := &wire.Usage{Boot: c.boot, Day: c.day, Seq: u.seq, Keys: make(map[string]wire.UsageKey)}
		some := c.changed[:min(len(c.changed), wire.MaxUsageKeys)]
		for _, id := range some {
			k := c.keys[id]
			report.Keys[id], k.changed = k.UsageKey, false
		}
		if c.changed = c.changed[len(some):]; len(c.changed) == 0 {
			c.changed = nil
		}
		return report
	}
	return nil
}

// forget drops the counters that count no more and are reported.
func (u *usage) forget() {
	for len(u.counters) > 1 && len(u.counters[0].changed) == 0 {
		u.counters = u.counters[1:]
	}
	if len(u.counters) == 1 && len(u.counters[0].changed) == 0 && u.counters[0].day != store.DayOf(u.now()) {
		u.counters = nil
	}
}

// confirm notes that the origin has a report.
func (u *usage) confirm(used *wire.Used) {
	if used != nil && u.sent != nil && used.Boot == u.sent.Boot && used.Seq == u.sent.Seq {
		u.sent = nil
	}
}

// reconnected makes the report that was not confirmed due at once.
func (u *usage) reconnected() { u.due, u.tries = time.Time{}, 0 }

// rest returns what was not reported yet, message by message, for a node that stops.
func (u *usage) rest(yield func(*wire.Usage) bool) {
	if u.sent != nil && !yield(u.sent) {
		return
	}
	for report := u.collect(); report != nil && yield(report); report = u.collect() {
	}
}
