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
	floor atomic.Int64 // no account that was given up counted further; moves in an update
	held  atomic.Int64 // accounts on disk, about
	left  int64        // of them after the last sweep; upkeep's
}

const (
	bucketPrefix = "b:"
	bootName     = "boot"
	// holdUp is for how many accounts at a time requests are held up.
	holdUp = 64
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
func (b *Buckets) Take(keyID string, perMinute int) (abi.Bucket, ratelimit.Telling, error) {
	if perMinute < 1 {
		return abi.Bucket{RetryMS: time.Minute.Milliseconds()}, ratelimit.Nothing, nil
	}
	name := bucketPrefix + keyID
	now := b.now().UnixMicro()
	var answer abi.Bucket
	var tell ratelimit.Telling
	err := b.file.update(func(tx *changes) error {
		_, account, known, err := readAccount(tx, name)
		if err != nil {
			return err
		}
		if !known {
			account = ratelimit.Begun(b.floor.Load())
		}
		if answer, tell = account.Take(perMinute, now); !answer.Allowed {
			return nil // nothing spent, nothing to write
		}
		if !known {
			b.held.Add(1)
		}
		writeAccount(tx, name, perMinute, account)
		return nil
	})
	if err != nil {
		return abi.Bucket{}, ratelimit.Nothing, fmt.Errorf("spend a token: %w", err)
	}
	return answer, tell, nil
}

// Reports are what the origin is to be told of these keys now. Those that the
// node knows nothing of are left out.
func (b *Buckets) Reports(keyIDs []string) (map[string]ratelimit.Report, error) {
	reports := make(map[string]ratelimit.Report, len(keyIDs))
	for some := range slices.Chunk(keyIDs, holdUp) {
		if err := b.report(some, reports); err != nil {
			return nil, fmt.Errorf("report spending: %w", err)
		}
	}
	return reports, nil
}

func (b *Buckets) report(keyIDs []string, into map[string]ratelimit.Report) error {
	now := b.now().UnixMicro()
	return b.file.update(func(tx *changes) error {
		for _, id := range keyIDs {
			limit, account, known, err := readAccount(tx, bucketPrefix+id)
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
			writeAccount(tx, bucketPrefix+id, limit, account)
		}
		return nil
	})
}

// Apply takes in what the origin says of keys. behind are those of whose last
// report it says nothing yet.
func (b *Buckets) Apply(shares map[string]ratelimit.Share) (behind map[string]bool, err error) {
	behind = make(map[string]bool)
	for some := range slices.Chunk(slices.Collect(maps.Keys(shares)), holdUp) {
		if err := b.apply(some, shares, behind); err != nil {
			return nil, fmt.Errorf("take in shares: %w", err)
		}
	}
	return behind, nil
}

func (b *Buckets) apply(keyIDs []string, shares map[string]ratelimit.Share, behind map[string]bool) error {
	now := b.now().UnixMicro()
	return b.file.update(func(tx *changes) error {
		for _, id := range keyIDs {
			limit, account, known, err := readAccount(tx, bucketPrefix+id)
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
			writeAccount(tx, bucketPrefix+id, limit, account)
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

// sweep gives up the accounts that say no more than none would. A key that is
// used again gets one whose counter begins where no counter was before, so that
// the origin takes it for neither an old one nor a great spending. It holds up
// requests for no more than a few accounts at a time.
func (b *Buckets) sweep() error {
	from, done := "", false
	for !done {
		var resting []string
		seen := 0
		done = true
		now := b.now().UnixMicro()
		err := b.file.each(bucketPrefix, from, func(id, value string) bool {
			if seen == holdUp {
				from, done = id, false
				return false
			}
			seen++
			if _, rests := atRest(value, now); rests {
				resting = append(resting, bucketPrefix+id)
			}
			return true
		})
		if err == nil && len(resting) > 0 {
			err = b.giveUp(resting, now)
		}
		if err != nil {
			return fmt.Errorf("sweep buckets: %w", err)
		}
	}
	b.left = b.held.Load()
	return nil
}

func (b *Buckets) giveUp(names []string, now int64) error {
	gone, floor := int64(0), b.floor.Load()
	err := b.file.update(func(tx *changes) error {
		var still []string
		for _, name := range names {
			value, err := tx.get(name)
			if err != nil {
				return err
			}
			// It may have been spent from since.
			if spent, rests := atRest(value, now); value != "" && rests {
				still = append(still, name)
				floor = max(floor, spent)
			}
		}
		// The floor first: what a crash leaves may have it and the accounts.
		if floor > b.floor.Load() {
			tx.set(bootName, encodeBoot(b.boot, floor))
		}
		for _, name := range still {
			tx.remove(name)
		}
		gone = int64(len(still))
		b.floor.Store(floor) // a floor that is too high, should the write fail, does no harm
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

func readAccount(tx *changes, name string) (limit int, account ratelimit.Account, known bool, err error) {
	value, err := tx.get(name)
	if err != nil || value == "" {
		return 0, account, false, err
	}
	// One of another layout is as none.
	limit, account, err = decodeAccount(value)
	return limit, account, err == nil, nil
}

// An account's value: i64 limit a minute when last spent from, then what
// ratelimit.Account.Append writes.
func writeAccount(tx *changes, name string, limit int, account ratelimit.Account) {
	v := account.Append(putInt(newValue(8+ratelimit.AccountSize), int64(limit)))
	tx.set(name, seal(name, v))
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
