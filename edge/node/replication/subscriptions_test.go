package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/wasm/abi"
)

// TestLongDigestsAreSentShort: whatever a module gives as a request's digest, what the origin
// is to keep of it is short.
func TestLongDigestsAreSentShort(t *testing.T) {
	cfg, _ := emptyConfig(t)
	holdKey(t, cfg.Store, "key_1")
	p := abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvTest}
	for _, size := range []int{0, 16, 64, 65, 90_000} {
		asked := 0
		cfg.Link = linktest.Link{Answer: func(_ context.Context, req, _ wire.Message) error {
			asked = len(req.(*wire.SubscribeRequest).Once.Digest)
			return nil
		}}
		cfg.WriteTimeout, cfg.PlaceTimeout = time.Minute, time.Minute
		once := &abi.SubscribeOnce{Key: "a", Digest: strings.Repeat("d", size), Subscription: abi.Subscription{ID: "whs_1"}}
		if _, err := newSubscriptions(cfg).SubscribeOnce(t.Context(), p, once); err != nil || asked > 128 {
			t.Errorf("of a digest of %d bytes the origin is sent %d, %v", size, asked, err)
		}
	}
}

// TestClockChangesNoAbandonedSubscription: a subscription that the origin makes only after it was
// given up is revoked, however the node's clock is set meanwhile, and one with an idempotency
// key is left a minute first.
func TestClockChangesNoAbandonedSubscription(t *testing.T) {
	for _, step := range []time.Duration{-2 * time.Second, time.Hour} {
		for _, once := range []string{"", "name"} {
			for _, restarted := range []bool{false, true} {
				t.Run(fmt.Sprintf("by %v, once %q, restarted %v", step, once, restarted), func(t *testing.T) {
					cfg, _ := emptyConfig(t)
					holdKey(t, cfg.Store, "key_1")
					synctest.Test(t, func(t *testing.T) { abandonAcross(t, cfg, step, once, restarted) })
				})
			}
		}
	}
}

// abandonAcross is in the bubble of a test.
func abandonAcross(t *testing.T, cfg Config, step time.Duration, once string, restarted bool) {
	cfg.WriteTimeout, cfg.PlaceTimeout = time.Second, time.Minute
	var set atomic.Int64 // by how much the clock was set
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
	var asked, revoked atomic.Int64
	made := time.Now().Add(cfg.WriteTimeout + 3*abandonEvery/2)
	cfg.Link = linktest.Link{Answer: func(ctx context.Context, req, _ wire.Message) error {
		if _, ok := req.(*wire.SubscribeRequest); ok {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", host.ErrUnavailable, ctx.Err())
		}
		if asked.Add(1); time.Now().Before(made) {
			return host.ErrNotFound
		}
		revoked.Add(1)
		return nil
	}}
	s := newSubscriptions(cfg)
	req := &wire.SubscribeRequest{Subscription: store.Subscription{ID: "whs_1", AccountID: "acc_1"}}
	if once != "" {
		req.Once = &wire.Once{Name: once}
	}
	p := abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvTest}
	if _, err := s.subscribe(t.Context(), p, req); !errors.Is(err, host.ErrUnavailable) {
		t.Fatal(err)
	}
	if restarted {
		s = newSubscriptions(cfg)
	}
	set.Store(int64(step))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	defer running.Wait()
	defer cancel()
	first := abandonEvery / 2
	if once != "" {
		time.Sleep(settled - first)
		synctest.Wait()
		if n := asked.Load(); n > 0 {
			t.Errorf("asked %d times for one that may be repeated", n)
		}
		return
	}
	time.Sleep(first)
	synctest.Wait()
	if kept, err := s.Store.Unconfirmed.Has("whs_1"); asked.Load() == 0 || !kept || err != nil {
		t.Errorf("it is noted: %v, %v, after it was asked for %d times", kept, err, asked.Load())
	}
	time.Sleep(2 * abandonEvery)
	synctest.Wait()
	if kept, err := s.Store.Unconfirmed.Has("whs_1"); revoked.Load() != 1 || kept || err != nil {
		t.Errorf("it is revoked %d times, noted: %v, %v", revoked.Load(), kept, err)
	}
}
