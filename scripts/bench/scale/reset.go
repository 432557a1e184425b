package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"partneredge/edge/backoff"
	"partneredge/edge/node/replication"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/scripts/bench/harness"
	"partneredge/store"
)

const (
	resetNodes    = 200
	resetKeys     = 10_000  // held by a node
	resetAllKeys  = 100_000 // that there are
	resetLooks    = 5 * time.Millisecond
	resetRevokes  = 250 * time.Millisecond
	resetAccounts = 1000
)

// reset measures how long a lookup of a held key takes that a request waits for, while
// 200 nodes refill 10 000 keys each after a reset, and how long a revocation takes to
// reach a node meanwhile.
func (b *bench) reset(ctx context.Context, s *site) (err error) {
	if err := s.accounts(ctx, resetAccounts); err != nil {
		return err
	}
	if err := s.keys(ctx, resetAllKeys); err != nil {
		return err
	}
	if _, err := s.startOrigin(ctx, s.DB); err != nil {
		return err
	}
	nodes := make([]*link.Link, resetNodes+1)
	for i := range nodes {
		if nodes[i], err = s.connect(ctx, fmt.Sprint("node-", i)); err != nil {
			return err
		}
	}
	asking, revoking := newLookups(nodes[resetNodes]), &revocations{site: s}
	if err := revoking.follow(nodes[resetNodes]); err != nil {
		return err
	}
	quiet, stopQuiet := context.WithTimeout(ctx, 2*time.Second)
	defer stopQuiet()
	if err := asking.run(quiet); err != nil {
		return err
	}
	before := asking.take()

	refilling, refill := errgroup.WithContext(ctx)
	var refilled atomic.Int64
	began := time.Now()
	for i := range resetNodes {
		refilling.Go(func() error { return refillOne(refill, nodes[i], i, &refilled) })
	}
	during, stop := context.WithCancel(ctx)
	defer stop()
	var measuring errgroup.Group
	measuring.Go(func() error { return asking.run(during) })
	measuring.Go(func() error { return revoking.run(during) })
	err = refilling.Wait()
	took := time.Since(began)
	stop()
	if err := errors.Join(err, measuring.Wait()); err != nil {
		return err
	}
	if n := refilled.Load(); n != resetNodes*resetKeys {
		return fmt.Errorf("%d keys were refilled, not %d", n, resetNodes*resetKeys)
	}
	looks, pushes := asking.take(), revoking.took
	slices.Sort(pushes)
	b.Printf("%d nodes refilled %d keys each in %.0f s; %d lookups meanwhile: p50 %.2f, p99 %.2f, most %.2f ms, before %.2f, %.2f; revocations p50 %.1f, most %.1f ms",
		resetNodes, resetKeys, took.Seconds(), len(looks), harness.Quantile(looks, .5), harness.Quantile(looks, .99), looks[len(looks)-1],
		harness.Quantile(before, .5), harness.Quantile(before, .99), harness.Quantile(pushes, .5), pushes[len(pushes)-1])
	b.Figure("reset_p99_ms", harness.Quantile(looks, .99), "ms")
	return nil
}

// keyHash returns the hash of the nth key.
func keyHash(n int) string {
	hash := sha256.Sum256(fmt.Append(nil, n))
	return string(hash[:])
}

// keyID returns the id of the nth key.
func keyID(n int) string { return fmt.Sprintf("key_%026d", n) }

// keys makes n keys.
func (s *site) keys(ctx context.Context, n int) error {
	now := time.Now()
	_, err := s.SQL.ExecContext(ctx, `INSERT INTO keys (id, account_id, hash, environment, scopes, allowlist, rate_limit, label,
			created_at, expires_at, grace_until, revoked_at, successor_id)
		SELECT 'key_' || lpad(i::text, 26, '0'), 'acc_' || lpad((1 + i % $2::int)::text, 26, '0'), sha256(i::text::bytea), 'live',
			'["`+store.ScopeReadAgent+`","`+store.ScopeReadCoaching+`","`+store.ScopeWriteLeads+`"]', '[]', 100, '', $3, $4, 0, 0, ''
		FROM generate_series(0, $1::int - 1) i`, n, resetAccounts, now.UnixMicro(), now.Add(24*time.Hour).UnixMicro())
	if err == nil {
		_, err = s.SQL.ExecContext(ctx, `ANALYZE keys`)
	}
	if err != nil {
		return fmt.Errorf("making keys: %w", err)
	}
	return nil
}

// connect enrols a node and connects its link.
func (s *site) connect(ctx context.Context, name string) (*link.Link, error) {
	credentials, err := s.enrol(ctx, name)
	if err != nil {
		return nil, err
	}
	l, err := link.New(link.Config{
		URL: s.Broker.URL(), Credentials: credentials, Region: region, Log: slog.New(slog.DiscardHandler),
		Observe: func(string, string, time.Duration) {},
	})
	if err != nil {
		return nil, err
	}
	if err := l.Connect(func() {}, func() {}); err != nil {
		return nil, err
	}
	s.AddFunc(l.Close)
	return l, harness.Poll(ctx, name+" to connect", func() (bool, error) { return l.Up(), nil })
}

// refillOne refills the keys of the nth node, and keeps none.
func refillOne(ctx context.Context, l *link.Link, n int, refilled *atomic.Int64) error {
	hashes := make([]string, resetKeys)
	for i := range hashes {
		hashes[i] = keyHash((n*resetKeys/7 + i) % resetAllKeys)
	}
	return replication.Refill{
		Link: l, Asking: func() replication.Asked { return replication.Asked{} }, Hashes: hashes,
		Wanted: func(string) bool { return true }, Unread: func(string) {},
		Put: func(_ string, key *store.Key, _ int64, _ replication.Asked) error {
			if key == nil {
				return errors.New("a key is missing")
			}
			refilled.Add(1)
			return nil
		},
	}.Run(ctx)
}

// lookups asks for one key after the other, and measures each.
type lookups struct {
	link *link.Link
	mu   sync.Mutex
	took []float64 // ms
}

func newLookups(l *link.Link) *lookups { return &lookups{link: l} }

// take returns what was measured, sorted, and forgets it.
func (l *lookups) take() (took []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took, l.took = l.took, nil
	slices.Sort(took)
	return took
}

// run asks until ctx ends, at its own pace however long answers take.
func (l *lookups) run(ctx context.Context) error {
	tick := time.Tick(resetLooks)
	var asking errgroup.Group
	for ctx.Err() == nil {
		asking.Go(func() error {
			began := time.Now()
			var reply wire.KeyReply
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			hash := keyHash(rand.N(resetAllKeys))
			err := l.link.Ask(within, wire.VerbKey, &wire.KeyRequest{Hash: []byte(hash), Bare: true}, &reply)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.took = append(l.took, harness.Milliseconds(time.Since(began)))
			return err
		})
		select {
		case <-ctx.Done():
		case <-tick:
		}
	}
	return asking.Wait()
}

// revocations revokes keys and measures when a node hears of each.
type revocations struct {
	site   *site
	pushed chan *nats.Msg
	took   []float64 // ms
}

func (r *revocations) follow(l *link.Link) error {
	r.pushed = make(chan *nats.Msg, 1000)
	return l.SubscribeChanges(func(m *nats.Msg) { r.pushed <- m })
}

// run revokes a key from time to time, until ctx ends.
func (r *revocations) run(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		if _, _, err := r.site.DB.RevokeKey(context.WithoutCancel(ctx), keyID(n)); err != nil {
			return err
		}
		for heard := false; !heard; {
			select {
			case m := <-r.pushed:
				var changed wire.Changed
				if err := wire.Decode(m.Data, &changed); err != nil {
					return err
				}
				heard = slices.ContainsFunc(changed.Changes, func(c store.Change) bool { return c.Ref == keyID(n) })
			case <-time.After(10 * time.Second):
				return fmt.Errorf("the revocation of %s is not pushed", keyID(n))
			}
		}
		r.took = append(r.took, harness.Milliseconds(time.Since(began)))
		_ = backoff.Pause(ctx, resetRevokes)
	}
	return nil
}
