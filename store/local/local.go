// Package local is what a node keeps on its own disk: copies of the records it
// needs, rate buckets, lockouts, how far it has followed the origin's changes,
// and the leads that the origin does not have yet.
//
// The files in the directory:
//
//	hot.db          copies of key records and account views; the cursor
//	limits.db       rate-limit accounts, lockouts, idempotency keys
//	*.db-NUMBER     what was changed since, in buntdb's format, as both are
//	outbox.log      leads that wait, synced to disk one group at a time
//	rejected.jsonl  leads that the origin refused for good, for the operator
//	lock            held by the process that uses the directory
//
// Every logical change is one key's value, and each file is a row of changes: a
// process that is killed leaves a state that was. A file that is damaged is set
// aside as NAME.damaged-TIME, which is one line in the log, and the store goes
// on with what is whole.
package local

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"partneredge/store/durable"
)

// Config of a Store.
type Config struct {
	// Dir is made, for this user only, when it is not there.
	Dir string
	// KeyBytes is what key records may take in memory, about; on disk it is at
	// most twice that, and 32 MiB, or twice as much while the file is rewritten.
	// 0: 128 MiB, some 130 000 keys.
	KeyBytes int64
	// ViewBytes is the same for views of accounts. 0: 256 MiB.
	ViewBytes int64
	// OutboxBytes is how large the outbox's file may become. 0: 1 GiB.
	OutboxBytes int64
	// Negatives is how many unknown keys are remembered. 0: 65 536.
	Negatives int
	// NegativeFor is for how long each is. 0: 5 s.
	NegativeFor time.Duration
	// Lockout rules; each field has a default.
	Lockout LockoutRules
	// IdempotencyKeys is how many idempotency keys are remembered at most. 0: 250 000,
	// some 60 MB.
	IdempotencyKeys int
	// Log of damage and failed upkeep. nil: none.
	Log *slog.Logger
	// Now is the clock. nil: time.Now.
	Now func() time.Time
}

func (c Config) filled() Config {
	if c.KeyBytes <= 0 {
		c.KeyBytes = 128 << 20
	}
	if c.ViewBytes <= 0 {
		c.ViewBytes = 256 << 20
	}
	if c.OutboxBytes <= 0 {
		c.OutboxBytes = 1 << 30
	}
	if c.Negatives <= 0 {
		c.Negatives = 65_536
	}
	if c.NegativeFor <= 0 {
		c.NegativeFor = 5 * time.Second
	}
	if c.IdempotencyKeys <= 0 {
		c.IdempotencyKeys = 250_000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Store is a node's state. All of it may be used from many goroutines.
type Store struct {
	Keys        *Replica // name: the SHA-256 of the plaintext; ref: the key's id
	Views       *Replica // name and ref: whatever the caller has for both
	Negatives   *Negatives
	Buckets     *Buckets
	Lockouts    *Lockouts
	Idempotency *Idempotency
	Outbox      *Outbox

	unlock      func()
	hot, limits *file
	log         *slog.Logger

	mu     sync.Mutex
	cursor Cursor

	stop   context.CancelFunc
	upkept sync.WaitGroup
	once   sync.Once
	err    error // of closing
}

// KeyName is the name on the shelf of keys of the key with this plaintext.
func KeyName(plaintext []byte) string {
	sum := sha256.Sum256(plaintext)
	return string(sum[:])
}

// Open reads the state in c.Dir, or begins one. It fails when another process
// uses the directory.
func Open(c Config) (*Store, error) {
	c = c.filled()
	s := &Store{log: c.Log}
	if err := s.open(c); err != nil {
		_ = s.closeFiles()
		return nil, fmt.Errorf("open local store: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	// Each file has its own, so that none waits for the other's rewriting.
	s.upkept.Go(func() { s.upkeep(ctx, s.hot, nil) })
	s.upkept.Go(func() { s.upkeep(ctx, s.limits, s.sweep) })
	return s, nil
}

func (s *Store) open(c Config) (err error) {
	if s.unlock, err = durable.Lock(c.Dir); err != nil {
		return err
	}
	if err = durable.RemoveTemp(c.Dir); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(c.Dir, name) }
	if s.hot, err = openFile(in("hot.db"), c.Log, c.Now()); err != nil {
		return err
	}
	if s.limits, err = openFile(in("limits.db"), c.Log, c.Now()); err != nil {
		return err
	}
	value, err := s.hot.get(cursorKey)
	if err != nil {
		return err
	}
	s.cursor = decodeCursor(value)
	if s.Keys, err = newReplica("k:", c.KeyBytes, s.hot, s.cursor.Epoch); err != nil {
		return err
	}
	if s.Views, err = newReplica("v:", c.ViewBytes, s.hot, s.cursor.Epoch); err != nil {
		return err
	}
	s.Negatives = newNegatives(c.NegativeFor, c.Negatives, c.Now)
	if s.Buckets, err = newBuckets(s.limits, s.limits.damaged, c.Now); err != nil {
		return err
	}
	if s.Lockouts, err = newLockouts(c.Lockout, s.limits, c.Now); err != nil {
		return err
	}
	if s.Idempotency, err = newIdempotency(s.limits, c.IdempotencyKeys, c.Now); err != nil {
		return err
	}
	s.Outbox, err = openOutbox(in("outbox.log"), in("rejected.jsonl"), c.OutboxBytes, c.Log, c.Now)
	return err
}

// Close brings everything to disk. It may be called twice.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.stop()
		s.upkept.Wait()
		s.err = s.closeFiles()
	})
	return s.err
}

func (s *Store) closeFiles() error {
	var errs []error
	if s.Outbox != nil {
		errs = append(errs, s.Outbox.Close())
	}
	for _, f := range []*file{s.limits, s.hot} {
		if f != nil {
			errs = append(errs, f.close())
		}
	}
	if s.unlock != nil {
		s.unlock()
	}
	return errors.Join(errs...)
}

// upkeep syncs every second what was written to a file, and keeps it small.
func (s *Store) upkeep(ctx context.Context, f *file, sweep func(turn int) error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for turn := 1; ; turn++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var err error
		if sweep != nil {
			err = sweep(turn)
		}
		if err = errors.Join(err, f.sync(), f.shrink()); err != nil {
			s.log.Error("upkeep of local store failed", "file", f.path, "err", err)
		}
	}
}

// sweep forgets what says nothing any more.
func (s *Store) sweep(turn int) error {
	if turn%30 != 0 && !s.Buckets.sweepDue() {
		return nil
	}
	return errors.Join(s.Buckets.sweep(), s.Lockouts.sweep(), s.Idempotency.sweep())
}
