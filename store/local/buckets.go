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

// Buckets holds the rate-limit accounts of the keys that are in use. A token is
// in the file as spent before Take returns, so a process that is killed never
// gives one back. A machine that loses its power loses at most the spending of
// the last second, of which the origin tells it again.
type Buckets struct {
	file  *file
	now   func() time.Time
	boot  string
	floor atomic.Int64 // no account that was given up counted beyond it; only upkeep moves it
	held  atomic.Int64 // accounts in the file, about
	left  int64        // accounts after the last sweep; only upkeep uses it
}

const (
	bucketPrefix = "b:"
	bootName     = "boot"
	// sweepAtOnce bounds the accounts that are looked at while requests wait.
	sweepAtOnce = 64
)

// newBuckets reads the accounts in f. damaged means that the file has lost its
// end: counters may have gone back, so they get another boot.
func newBuckets(f *file, damaged bool, now func() time.Time) (*Buckets, error) {
	b := &Buckets{file: f, now: now}
	value, err := f.get(bootName)
	if err != nil {
		return nil, fmt.Errorf("read buckets: %w", err)
	}
	fields := openValue(value)
	b.boot = fields.text()
	b.floor.Store(fields.int())
	if b.boot == "" || damaged {
		b.boot = rand.Text()
		if err := f.set(bootName, encodeBoot(b.boot, b.floor.Load())); err != nil {
			return nil, fmt.Errorf("name counters: %w", err)
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

// Len returns about how many accounts are held.
func (b *Buckets) Len() int { return int(b.held.Load()) }

// Boot returns the name of the file of counters. It stays the same when the
// process restarts, and changes when the file is lost.
func (b *Buckets) Boot() string { return b.boot }

// Busy reports whether Take would wait just now, for another change to be written.
func (b *Buckets) Busy() bool { return b.file.busy() }

// Take spends one of the key's perMinute tokens, if that is safe, and reports what
// is left and how soon the origin needs a report. A limit below 1 admits nobody.
func (b *Buckets) Take(keyID string, perMinute int) (abi.Bucket, ratelimit.Urgency, error) {
	if perMinute < 1 {
		return abi.Bucket{RetryMS: time.Minute.Milliseconds()}, ratelimit.NoReport, nil
	}
	name := bucketPrefix + keyID
	now := b.now().UnixMicro()
	var answer abi.Bucket
	var report ratelimit.Urgency
	err := b.file.update(func(c *changes) error {
		held, err := readAccount(c, name)
		if err != nil {
			return err
		}
		if !held.found {
			held.account = ratelimit.NewAccount(b.floor.Load())
		}
		back := held.found && now < held.account.At
		if answer, report = held.account.Take(perMinute, now); !answer.Allowed && !back {
			return nil // nothing spent, nothing to write: it counts on from the time before
		}
		if !held.found {
			b.held.Add(1)
		}
		writeAccount(c, name, perMinute, held.account)
		return nil
	})
	if err != nil {
		return abi.Bucket{}, ratelimit.NoReport, fmt.Errorf("spend a token: %w", err)
	}
	return answer, report, nil
}

// Reports returns what to report of these keys. Keys without an account are left
// out.
func (b *Buckets) Reports(keyIDs []string) (map[string]ratelimit.Report, error) {
	reports := make(map[string]ratelimit.Report, len(keyIDs))
	err := b.change(keyIDs, func(id string, limit int, account *ratelimit.Account, now int64) bool {
		sent := account.Sent
		reports[id] = account.Report(limit, now)
		return account.Sent != sent // else it was reported before: nothing to write
	})
	if err != nil {
		return nil, fmt.Errorf("report spending: %w", err)
	}
	return reports, nil
}

// Apply applies the origin's shares. behind are the keys whose last report is not
// in their share yet.
func (b *Buckets) Apply(shares map[string]ratelimit.Share) (behind map[string]bool, err error) {
	behind = make(map[string]bool)
	err = b.change(slices.Collect(maps.Keys(shares)), func(id string, limit int, account *ratelimit.Account, now int64) bool {
		account.Apply(shares[id], limit, now)
		if account.Sent > account.Acked {
			behind[id] = true
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("apply shares: %w", err)
	}
	return behind, nil
}

// change calls fn with the accounts of keys, a few at a time since requests wait
// meanwhile, and writes an account when fn returns true. Keys without an account
// are passed over.
func (b *Buckets) change(keyIDs []string, fn func(id string, limit int, account *ratelimit.Account, now int64) (write bool)) error {
	for some := range slices.Chunk(keyIDs, sweepAtOnce) {
		now := b.now().UnixMicro()
		err := b.file.update(func(c *changes) error {
			for _, id := range some {
				held, err := readAccount(c, bucketPrefix+id)
				if err != nil {
					return err
				}
				if held.found && fn(id, held.limit, &held.account, now) {
					writeAccount(c, bucketPrefix+id, held.limit, held.account)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Unacked returns the keys whose spending the origin has not confirmed.
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

// sweepEvery is how many accounts more than the last sweep left make one due.
const sweepEvery = 20_000

func (b *Buckets) sweepDue() bool { return b.held.Load() > b.left+sweepEvery }

// restFor is how long an account is held after its last use. It is longer than
// ratelimit.FreshFor.
const restFor = 5 * time.Second

// sweep gives up the accounts that say no more than none would, a few at a time,
// since requests wait meanwhile. Accounts of a time yet to come count on from now, or
// they would be held until then. A key that is used again gets an account whose
// counter begins at the floor, which no counter was above, so that the origin
// takes it neither for an old one nor for much spending.
func (b *Buckets) sweep() error {
	from, done := "", false
	for !done {
		var resting, ahead []string
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
			} else if _, account, _ := decodeAccount(value); isAhead(account, now) {
				ahead = append(ahead, id)
			}
			return true
		})
		if err == nil && len(resting) > 0 {
			err = b.giveUp(resting, floor, now)
		}
		if err == nil {
			err = b.change(ahead, func(_ string, limit int, account *ratelimit.Account, now int64) bool {
				if !isAhead(*account, now) {
					return false // it was used meanwhile
				}
				account.Settle(int64(limit), now)
				return true
			})
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

// encodeBoot writes the value of bootName: text boot, i64 floor.
func encodeBoot(boot string, floor int64) string {
	return seal(bootName, putInt(putText(newValue(48), boot), floor))
}

// atRest reports whether an account may be given up, and its count. One that was used
// at a time yet to come was used before the clock was put back. Nobody knows how long
// ago that was, so it has regained nothing.
func atRest(value string, now int64) (spent int64, rests bool) {
	limit, account, err := decodeAccount(value)
	if err != nil {
		return 0, true
	}
	if isAhead(account, now) {
		return account.Spent, account.Idle(limit, account.At)
	}
	return account.Spent, now-account.At >= restFor.Microseconds() && account.Idle(limit, now)
}

// isAhead reports whether an account was used at a time yet to come, by more than the
// moment by which a request may overtake the sweep.
func isAhead(account ratelimit.Account, now int64) bool {
	return account.At-now >= restFor.Microseconds()
}

// heldAccount is an account as the file holds it.
type heldAccount struct {
	found   bool // else there is none
	limit   int  // a minute, when it was last spent from
	account ratelimit.Account
}

// readAccount reads an account. One of another layout counts as none.
func readAccount(c *changes, name string) (held heldAccount, err error) {
	value, err := c.get(name)
	if err != nil || value == "" {
		return held, err
	}
	held.limit, held.account, err = decodeAccount(value)
	held.found = err == nil
	return held, nil
}

// writeAccount writes an account's value: i64 limit a minute when it was last
// spent from, then what ratelimit.Account.Append writes.
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
