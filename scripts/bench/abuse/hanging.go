package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/webhook"
	"partneredge/scripts/bench/harness"
	"partneredge/scripts/bench/hooks"
	"partneredge/store/central"
)

const (
	hangingEndpoints = 3000
	hangingPerOne    = 100             // of one account
	hangingEvery     = 2 * time.Second // an event to each of them
	hangingTime      = 25 * time.Second
	hangingLead      = 5 * time.Second // before anything is measured
)

// hanging makes 3 000 endpoints hang, one half in the TLS handshake and one half after the
// request, and measures how long deliveries to others wait from their event to their
// arrival: to one that has failed once, and to new ones.
func (b *bench) hanging(ctx context.Context) (err error) {
	f, err := b.startFanOut(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	var accounts []string
	for i := range hangingEndpoints {
		if i%hangingPerOne == 0 {
			id, err := hooks.Account(ctx, f.db)
			if err != nil {
				return err
			}
			accounts = append(accounts, id)
		}
		target := f.receiver.URL + "/hang"
		if i%2 == 0 {
			target = "https://" + f.deaf.Addr().String()
		}
		if err := hooks.Subscribe(ctx, f.db, accounts[len(accounts)-1], fmt.Sprintf("%s/%d", target, i)); err != nil {
			return err
		}
	}
	flaky, err := f.healthy(ctx, "/flaky")
	if err != nil {
		return err
	}
	for range 20 { // it proves itself
		if _, err := hooks.Fire(ctx, f.db, flaky); err != nil {
			return err
		}
	}
	attack, cancel := context.WithCancel(ctx)
	defer cancel()
	var attacking sync.WaitGroup
	defer attacking.Wait()
	defer cancel()
	attacking.Go(func() {
		for attack.Err() == nil {
			for _, a := range accounts {
				_, _ = hooks.Fire(attack, f.db, a) // fails when the attack ends
			}
			_ = backoff.Pause(attack, hangingEvery)
		}
	})
	if err := backoff.Pause(ctx, hangingLead); err != nil {
		return err
	}
	return b.measureOthers(ctx, f, flaky)
}

// measureOthers fires events of the account flaky, whose endpoint fails once, and of new
// accounts.
func (b *bench) measureOthers(ctx context.Context, f *fanOut, flaky string) error {
	f.failOnce.Store(true)
	if _, err := hooks.Fire(ctx, f.db, flaky); err != nil {
		return err
	}
	afterFailure, ofNew := map[string]time.Time{}, map[string]time.Time{}
	for began, n := time.Now(), 0; time.Since(began) < hangingTime; n++ {
		if err := backoff.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		event, err := hooks.Fire(ctx, f.db, flaky)
		if err != nil {
			return err
		}
		afterFailure[event] = time.Now()
		if n%5 != 0 {
			continue
		}
		account, err := f.healthy(ctx, fmt.Sprintf("/new/%d", n))
		if err != nil {
			return err
		}
		if event, err = hooks.Fire(ctx, f.db, account); err != nil {
			return err
		}
		ofNew[event] = time.Now()
	}
	for name, fired := range map[string]map[string]time.Time{"3000_hanging": afterFailure, "new_endpoint": ofNew} {
		took, err := f.waits(ctx, fired)
		if err != nil {
			return err
		}
		b.Printf("hanging: %s: %d deliveries, p50 %v, p99 %v, worst %v, beside %d tries that hang",
			name, len(took), harness.Quantile(took, .5), harness.Quantile(took, .99), took[len(took)-1], f.sender.Stats().Slow)
		b.Figure("healthy_delivery_s."+name, harness.Quantile(took, .99).Seconds(), "s")
	}
	return nil
}

// fanOut is a sender over SQLite, and its endpoints.
type fanOut struct {
	db       *central.DB
	sender   *webhook.Sender
	receiver *hooks.Endpoints
	deaf     net.Listener // whose connections say nothing
	ends     chan struct{}
	failOnce atomic.Bool
	arrived  hooks.Arrivals
}

func (b *bench) startFanOut(ctx context.Context) (_ *fanOut, err error) {
	f := &fanOut{ends: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop())
		}
	}()
	dir := filepath.Join(b.Dir, "hanging")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if f.deaf, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if f.receiver, err = hooks.Serve(dir, f); err != nil {
		return nil, err
	}
	if f.db, err = central.Open(ctx, central.Config{URL: filepath.Join(dir, "origin.db")}); err != nil {
		return nil, err
	}
	f.sender, err = hooks.StartSender(ctx, f.db, webhook.Config{CAFile: f.receiver.CAFile})
	return f, err
}

func (f *fanOut) stop() (err error) {
	close(f.ends)
	if f.sender != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel() // tries that hang are not waited for
		err = f.sender.Stop(now)
	}
	if f.db != nil {
		err = errors.Join(err, f.db.Close())
	}
	if f.receiver != nil {
		f.receiver.Close()
	}
	if f.deaf != nil {
		err = errors.Join(err, f.deaf.Close())
	}
	return err
}

// ServeHTTP is every endpoint that speaks TLS.
func (f *fanOut) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	switch {
	case strings.HasPrefix(q.URL.Path, "/hang"):
		select {
		case <-q.Context().Done():
		case <-f.ends:
		}
		return
	case q.URL.Path == "/flaky" && f.failOnce.CompareAndSwap(true, false):
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	f.arrived.Add(q, time.Now())
}

// waits returns, sorted, how long after their events deliveries arrived.
func (f *fanOut) waits(ctx context.Context, fired map[string]time.Time) ([]time.Duration, error) {
	err := harness.Poll(ctx, "deliveries to healthy endpoints", func() (bool, error) { return f.arrived.Missing(maps.Keys(fired)) == 0, nil })
	return f.arrived.Waits(fired), err
}

// healthy makes an account with an endpoint that answers.
func (f *fanOut) healthy(ctx context.Context, path string) (account string, err error) {
	if account, err = hooks.Account(ctx, f.db); err != nil {
		return "", err
	}
	return account, hooks.Subscribe(ctx, f.db, account, f.receiver.URL+path)
}
