// Package local is a node's state on its own disk: replicas of the records it needs,
// rate-limit accounts, lockouts, idempotency records, its position in the
// origin's changes, and the leads that the origin does not have yet.
//
// The files in the directory:
//
//	hot.db          replicas of key records and account views; the cursor
//	limits.db       rate-limit accounts, lockouts, idempotency records; both files go
//	                on in memory while the disk takes nothing
//	unconfirmed.db  subscriptions whose partners have no answer yet, each change
//	                synced to disk
//	outbox.log      leads that wait, synced to disk one group at a time; when
//	                there are many, outbox.log.1 and so on as well. Beside each,
//	                .gone names what of it was handed over; .kept-TIME is one that
//	                was, as a whole, then
//	rejected.jsonl  leads that the origin did not take, offered again now and then;
//	                rejected.jsonl.1 and so on where the disk does not read its end
//	lock            held by the process that uses the directory
//
// The .db files are logs of changes in buntdb's format (see file). What must be
// whole after a crash is one key's value. A file that is damaged, or that the disk
// reads only in part, is set aside as NAME.damaged-TIME, or cut where the disk has no
// room for that, which is one line in the log, and the store goes on with what is whole.
package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"partneredge/store/durable"
	"partneredge/store/local/outbox"
)

// Config configures a Store.
type Config struct {
	// Dir is the store's directory. If it is missing, it is made, for this user
	// only.
	Dir string
	// KeyBytes is about how many bytes key records may take in memory. On disk they
	// take at most twice as many, and 32 MiB, or three times as many while the file
	// is rewritten. 0: 128 MiB, some 130 000 keys.
	KeyBytes int64
	// ViewBytes is the same for views of accounts. 0: 256 MiB.
	ViewBytes int64
	// OutboxBytes is the most bytes of the outbox's files. 0: 1 GiB.
	OutboxBytes int64
	// KeepLeads is the time for which leads are kept after they were handed over, at
	// most an hour longer. See outbox.Config. 0: they are not kept.
	KeepLeads time.Duration
	// Negatives bounds the unknown keys that are remembered. 0: 65 536.
	Negatives int
	// NegativeFor is the time for which each is remembered. 0: 5 s.
	NegativeFor time.Duration
	// Lockout is when addresses are locked out. Each field has a default.
	Lockout LockoutRules
	// IdempotencyKeys is how many idempotency keys are remembered at most, of all owners
	// together. 0: 250 000, some 60 MB.
	IdempotencyKeys int
	// Free returns how many bytes the disk of a directory has, and how many of them
	// may still be used: the outbox takes no more than that, less what it leaves for
	// the other files, and these are not rewritten where that would take half of what it
	// leaves. nil: durable.Free.
	Free func(dir string) (free, total int64, err error)
	// FS is the file system of Dir. nil: the machine's.
	FS durable.FS
	// Log receives damage and failed upkeep. nil: nothing is logged.
	Log *slog.Logger
	// Now is the clock. nil: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	c.KeyBytes = cmp.Or(max(c.KeyBytes, 0), 128<<20)
	c.ViewBytes = cmp.Or(max(c.ViewBytes, 0), 256<<20)
	c.OutboxBytes = cmp.Or(max(c.OutboxBytes, 0), 1<<30)
	c.Negatives = cmp.Or(max(c.Negatives, 0), 65_536)
	c.NegativeFor = cmp.Or(max(c.NegativeFor, 0), 5*time.Second)
	c.IdempotencyKeys = cmp.Or(max(c.IdempotencyKeys, 0), 250_000)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Free == nil {
		c.Free = durable.Free
	}
	return c
}

// Store is a node's state. All its parts may be used from many goroutines.
type Store struct {
	Keys        *Replica // name: the SHA-256 of the plaintext; ref: the key's id
	Views       *Replica // name and ref: whatever the caller has for both
	Negatives   *Negatives
	Buckets     *Buckets
	Lockouts    *Lockouts
	Idempotency *Idempotency
	Unconfirmed *Unconfirmed
	Outbox      *outbox.Outbox

	unlock      func()
	hot, limits *file
	unconfirmed *file
	log         *slog.Logger

	mu     sync.Mutex
	cursor Cursor

	stop   context.CancelFunc
	upkept sync.WaitGroup
	once   sync.Once
	err    error // of Close
}

// KeyName returns the name of the record in Store.Keys of the key with this
// plaintext.
func KeyName(plaintext []byte) string {
	sum := sha256.Sum256(plaintext)
	return string(sum[:])
}

// Open opens the state in c.Dir, or makes a new one. It fails when another process
// uses the directory.
func Open(c Config) (*Store, error) {
	c = c.withDefaults()
	s := &Store{log: c.Log}
	if err := s.open(c); err != nil {
		_ = s.closeFiles()
		return nil, fmt.Errorf("open local store: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	// Each file has a goroutine, so that none waits while another is rewritten.
	s.upkept.Go(func() { s.upkeep(ctx, s.hot, nil) })
	s.upkept.Go(func() { s.upkeep(ctx, s.limits, s.sweep) })
	s.upkept.Go(func() { s.upkeep(ctx, s.unconfirmed, nil) })
	return s, nil
}

// open locks c.Dir, opens the files in it, and reads the state from them. When it fails,
// closeFiles closes what it has opened.
func (s *Store) open(c Config) (err error) {
	if s.unlock, err = durable.Lock(c.Dir); err != nil {
		return err
	}
	disk := durable.Disk{FS: c.FS}
	if err = disk.RemoveTemp(c.Dir); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(c.Dir, name) }
	if s.hot, err = openFile(disk, in("hot.db"), c.Log, c.Now()); err != nil {
		return err
	}
	if s.limits, err = openFile(disk, in("limits.db"), c.Log, c.Now()); err != nil {
		return err
	}
	if s.unconfirmed, err = openFile(disk, in("unconfirmed.db"), c.Log, c.Now()); err != nil {
		return err
	}
	for _, f := range []*file{s.hot, s.limits, s.unconfirmed} {
		f.free = c.Free
	}
	s.unconfirmed.syncEach = true
	s.Unconfirmed = &Unconfirmed{s.unconfirmed}
	s.hot.inMemory, s.limits.inMemory = true, true // else a full disk would stop reads
	s.hot.last = cursorKey                         // the file must have every change that the cursor counts
	value, err := s.hot.get(cursorKey)
	if err != nil {
		return err
	}
	s.cursor = decodeCursor(value)
	if s.Keys, err = newReplica("k:", c.KeyBytes, s.hot, s.cursor.Epoch, c.Now); err != nil {
		return err
	}
	if s.Views, err = newReplica("v:", c.ViewBytes, s.hot, s.cursor.Epoch, c.Now); err != nil {
		return err
	}
	s.resume()
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
	s.Outbox, err = outbox.Open(outbox.Config{
		Disk: disk, Path: in("outbox.log"), RejectedPath: in("rejected.jsonl"), MaxBytes: c.OutboxBytes, KeepFor: c.KeepLeads, Free: c.Free, Log: c.Log, Now: c.Now,
	})
	return err
}

// resume goes on in the cursor's epoch. Records of a later one are of a reset that did
// not get as far as the cursor: then every record is stale, in one epoch more.
func (s *Store) resume() {
	if latest := max(s.Keys.latest, s.Views.latest); latest > s.cursor.Epoch {
		s.cursor.Epoch = latest + 1
		s.Keys.invalidate(s.cursor.Epoch, 0)
		s.Views.invalidate(s.cursor.Epoch, 0)
	}
}

// InMemory reports whether limits or records are kept in memory alone, since the disk
// takes nothing. They are written within a second once it does.
func (s *Store) InMemory() bool { return s.limits.isBehind() || s.hot.isBehind() }

// Close brings everything to disk and unlocks the directory. It may be called
// twice.
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
	for _, f := range []*file{s.limits, s.hot, s.unconfirmed} {
		if f != nil {
			errs = append(errs, f.close())
		}
	}
	if s.unlock != nil {
		s.unlock()
	}
	return errors.Join(errs...)
}

// Seconds for which a file is not shrunk after that failed: twice as many each time.
const (
	firstRest = 60
	maxRest   = 900
)

// upkeep syncs a file every second and shrinks it when that is worth it. It logs once a
// minute that it fails in the same way: a disk that became read-only may stay so for days.
// A shrink that failed, as for want of room, is tried again after a rest.
func (s *Store) upkeep(ctx context.Context, f *file, sweep func(second int) error) {
	tick := time.Tick(time.Second)
	quiet, last := 0, ""           // seconds in which a failure is not logged again, and which one
	rest, nextRest := 0, firstRest // seconds
	for second := 1; ; second++ {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		f.catchUp()
		f.anew--
		var err error
		if sweep != nil {
			err = sweep(second)
		}
		quiet = max(quiet-1, 0)
		if err = errors.Join(err, f.sync()); err != nil && (quiet == 0 || err.Error() != last) {
			s.log.Error("upkeep of local store failed", "file", f.path, "err", err)
			quiet, last = 60, err.Error()
		}
		if rest = max(rest-1, 0); rest > 0 {
			continue
		}
		if err = f.shrink(); err != nil {
			s.log.Error("local file cannot be rewritten", "file", f.path, "err", err, "again_in_seconds", nextRest)
			rest, nextRest = nextRest, min(2*nextRest, maxRest)
		} else {
			nextRest = firstRest
		}
	}
}

// sweep removes from limits.db what has expired, every 30 seconds or once many
// accounts have come.
func (s *Store) sweep(second int) error {
	if second%30 != 0 && !s.Buckets.sweepDue() {
		return nil
	}
	return errors.Join(s.Buckets.sweep(), s.Lockouts.sweep(), s.Idempotency.sweep())
}
