package local

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"partneredge/store/ratelimit"
	"partneredge/wasm/abi"
)

// Buckets holds the rate-limit account of each key that is not at rest. What is
// spent is written before Take returns, so a process that is killed at any
// point never gives a token back; what the machine itself loses with its power
// is at most the last second's, and the origin tells it again.
type Buckets struct {
	file  *file
	now   func() time.Time
	boot  string
	floor atomic.Int64 // no account that was given up counted further; only upkeep moves it
	held  atomic.Int64 // accounts on disk, about
	left  int64        // of them after the last sweep; upkeep's
}

const (
	bucketPrefix = "b:"
	bootName     = "boot"
	// sweepAtOnce is how many accounts are looked at while requests wait.
	sweepAtOnce = 64
)

// newBuckets reads f. fresh says that the end of what it held was lost: its
// counters may have gone back, so they begin another life.
func newBuckets(f *file, fresh bool, now func() time.Time) (*Buckets, error) {
	b := &Buckets{file: f, now: now}
	value, err := f.get(bootName)
	if err != nil {
		return nil, fmt.Errorf("read buckets: %w", err)
	}
	fields := openValue(value)
	b.boot = fields.text()
	b.floor.Store(fields.int())
	if b.boot == "" || fresh {
		b.boot = rand.Text()
		if err := f.set(bootName, encodeBoot(b.boot, b.floor.Load())); err != nil {
			return nil, fmt.Errorf("begin buckets: %w", err)
		}
	}
	err = f.each(bucketPrefix, "", func(_, _ string) bool {
		b.left++
		return true
	})
	b.held.Store(b.left)
	if err != nil {
		return nil, fmt.Errorf("read buckets: %w", err)
	}
	return b, nil
}

// Len is the number of accounts held, about.
func (b *Buckets) Len() int { return int(b.held.Load()) }

// Boot names this life of the counters: it outlives the process, and changes
// with the loss of the file.
func (b *Buckets) Boot() string { return b.boot }

// Take spends one of the key's perMinute tokens, if that is safe, and tells
// when the origin is to hear of it. A limit below 1 admits nobody.
func (b *Buckets) Take(keyID string, perMinute int) (abi.Bucket, ratelimit.Urgency, error) {
	if perMinute < 1 {
		return abi.Bucket{RetryMS: time.Minute.Milliseconds()}, ratelimit.NoReport, nil
	}
	name := bucketPrefix + keyID
	now := b.now().UnixMicro()
	var answer abi.Bucket
	var tell ratelimit.Urgency
	err := b.file.update(func(c *changes) error {
		_, account, known, err := readAccount(c, name)
		if err != nil {
			return err
		}
		if !known {
			account = ratelimit.NewAccount(b.floor.Load())
		}
		if answer, tell = account.Take(perMinute, now); !answer.Allowed {
			return nil // nothing spent, nothing to write
		}
		if !known {
			b.held.Add(1)
		}
		writeAccount(c, name, perMinute, account)
		return nil
	})
	if err != nil {
		return abi.Bucket{}, ratelimit.NoReport, fmt.Errorf("spend a token: %w", err)
	}
	return answer, tell, nil
}

// Reports are what the origin is to be told of these keys now. Those that the
// node knows nothing of are left out.
func (b *Buckets) Reports(keyIDs []string) (map[string]ratelimit.Report, error) {
	reports := make(map[string]ratelimit.Report, len(keyIDs))
	for some := range slices.Chunk(keyIDs, sweepAtOnce) {
		if err := b.report(some, reports); err != nil {
			return nil, fmt.Errorf("report spending: %w", err)
		}
	}
	return reports, nil
}

func (b *Buckets) report(keyIDs []string, into map[string]ratelimit.Report) error {
	now := b.now().UnixMicro()
	return b.file.update(func(c *changes) error {
		for _, id := range keyIDs {
			limit, account, known, err := readAccount(c, bucketPrefix+id)
			if err != nil {
				return err
			}
			if !known {
				continue
			}
			sent := account.Sent
			into[id] = account.Report(limit, now)
			if account.Sent == sent {
				continue // told again: nothing to write
			}
			writeAccount(c, bucketPrefix+id, limit, account)
		}
		return nil
	})
}

// Apply takes in what the origin says of keys. behind are those of whose last
// report it says nothing yet.
func (b *Buckets) Apply(shares map[string]ratelimit.Share) (behind map[string]bool, err error) {
	behind = make(map[string]bool)
	for some := range slices.Chunk(slices.Collect(maps.Keys(shares)), sweepAtOnce) {
		if err := b.apply(some, shares, behind); err != nil {
			return nil, fmt.Errorf("take in shares: %w", err)
		}
	}
	return behind, nil
}

func (b *Buckets) apply(keyIDs []string, shares map[string]ratelimit.Share, behind map[string]bool) error {
	now := b.now().UnixMicro()
	return b.file.update(func(c *changes) error {
		for _, id := range keyIDs {
			limit, account, known, err := readAccount(c, bucketPrefix+id)
			if err != nil {
				return err
			}
			if !known {
				continue // swept meanwhile
			}
			account.Apply(shares[id], limit, now)
			if account.Sent > account.Acked {
				behind[id] = true
			}
			writeAccount(c, bucketPrefix+id, limit, account)
		}
		return nil
	})
}

// Unacked are the keys whose spending the origin has not confirmed.
func (b *Buckets) Unacked() (keyIDs []string, err error) {
	err = b.file.each(bucketPrefix, "", func(id, value string) bool {
		if _, account, err := decodeAccount(value); err == nil && account.Spent != account.Acked {
			keyIDs = append(keyIDs, id)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read buckets: %w", err)
	}
	return keyIDs, nil
}

// sweepEvery many more accounts than the last sweep left make another due.
const sweepEvery = 20_000

func (b *Buckets) sweepDue() bool { return b.held.Load() > b.left+sweepEvery }

// restFor is how long an account is kept after its last use: longer than what
// it says of other nodes is believed.
const restFor = 5 * time.Second

// sweep gives up the accounts that say no more than none would, a few at a time,
// since requests wait meanwhile. A key that is used again gets an account whose
// counter begins at the floor, which no counter was above, so that the origin
// takes it neither for an old one nor for much spending.
func (b *Buckets) sweep() error {
	from, done := "", false
	for !done {
		var resting []string
		floor := b.floor.Load()
		seen := 0
		done = true
		now := b.now().UnixMicro()
		err := b.file.each(bucketPrefix, from, func(id, value string) bool {
			if seen == sweepAtOnce {
				from, done = id, false
				return false
			}
			seen++
			if spent, rests := atRest(value, now); rests {
				resting = append(resting, bucketPrefix+id)
				floor = max(floor, spent)
			}
			return true
		})
		if err == nil && len(resting) > 0 {
			err = b.giveUp(resting, floor, now)
		}
		if err != nil {
			return fmt.Errorf("sweep buckets: %w", err)
		}
	}
	b.left = b.held.Load()
	return nil
}

// giveUp removes those of the accounts that still rest and have counted no
// further than floor. The floor is in the file before: no crash can leave it
// below an account that is gone.
func (b *Buckets) giveUp(names []string, floor, now int64) error {
	if floor > b.floor.Load() {
		if err := b.file.set(bootName, encodeBoot(b.boot, floor)); err != nil {
			return err
		}
		b.floor.Store(floor)
	}
	gone := int64(0)
	err := b.file.update(func(c *changes) error {
		for _, name := range names {
			value, err := c.get(name)
			if err != nil {
				return err
			}
			if spent, rests := atRest(value, now); value == "" || !rests || spent > floor {
				continue // it was used meanwhile
			}
			c.remove(name)
			gone++
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.held.Add(-gone)
	return nil
}

// The value of boot: text boot, i64 floor.
func encodeBoot(boot string, floor int64) string {
	return seal(bootName, putInt(putText(newValue(48), boot), floor))
}

// atRest tells whether an account may be given up, and how far it counted. One
// that was used at a time which is yet to come was used before the clock was put
// back, nobody knows how long ago: as long as it was put back by, say.
func atRest(value string, now int64) (spent int64, rests bool) {
	limit, account, err := decodeAccount(value)
	if err != nil {
		return 0, true
	}
	unused := max(now-account.At, account.At-now)
	return account.Spent, unused >= restFor.Microseconds() && account.Idle(limit, account.At+unused)
}

func readAccount(c *changes, name string) (limit int, account ratelimit.Account, known bool, err error) {
	value, err := c.get(name)
	if err != nil || value == "" {
		return 0, account, false, err
	}
	// One of another layout is as none.
	limit, account, err = decodeAccount(value)
	return limit, account, err == nil, nil
}

// An account's value: i64 limit a minute when last spent from, then what
// ratelimit.Account.Append writes.
func writeAccount(c *changes, name string, limit int, account ratelimit.Account) {
	v := account.Append(putInt(newValue(8+ratelimit.AccountSize), int64(limit)))
	c.set(name, seal(name, v))
}

func decodeAccount(value string) (limit int, account ratelimit.Account, err error) {
	f := openValue(value)
	limit = int(f.int())
	if f.bad {
		return 0, account, ratelimit.ErrAccount
	}
	account, err = ratelimit.Parse(f.rest)
	return limit, account, err
}
