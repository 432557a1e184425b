package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin"
	"partneredge/edge/webhook"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

const (
	slowSubscribes = 64 // under way at once, of one test key
	slowRounds     = 5
	slowLookups    = 150 // of keys by the other node, in each half of a round
	slowSettle     = 300 * time.Millisecond
)

// slowDNS subscribes endpoints whose name server never answers, with a test key and at one
// node, and compares how long another node takes for requests with keys that it has to
// ask the origin for, to the same without the attack.
func (b *bench) slowDNS(ctx context.Context) (err error) {
	mute, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer mute.Close()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", mute.LocalAddr().String())
	}}
	r, err := b.region(ctx, "slow_dns", fleet.RegionConfig{Nodes: 2, ChangeOrigin: func(c *origin.Config) {
		c.Guard = webhook.NewGuard(webhook.GuardConfig{Resolver: resolver})
		c.Log = nil // each name that is not found in time is logged
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()

	var ratios []float64
	for round := range slowRounds {
		keys, err := newKeys(ctx, r.Region, 2*slowLookups)
		if err != nil {
			return err
		}
		var alone, beside time.Duration
		var underWay int32
		err = measureHalves(round, func() (err error) {
			alone, err = lookUp(ctx, r.Region, keys[:slowLookups])
			return err
		}, func() error {
			attack, err := beginSlowSubscribes(ctx, r.Region)
			if err != nil {
				return err
			}
			defer attack.end()
			beside, err = lookUp(ctx, r.Region, keys[slowLookups:])
			underWay = attack.underWay.Load()
			return err
		})
		if err != nil {
			return err
		}
		ratios = append(ratios, float64(beside)/float64(alone))
		b.Printf("slow_dns: p99 of a key lookup %v, with slow subscribes %v; %d of them were under way at the end", alone, beside, underWay)
	}
	b.Figure("other_node_key_ratio.slow_dns", harness.Median(ratios), "ratio")
	return nil
}

func newKeys(ctx context.Context, r *fleet.Region, n int) ([]string, error) {
	keys := make([]string, n)
	for i := range keys {
		var err error
		if _, keys[i], err = r.Admin.Key(ctx, r.Account, 100); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// lookUp returns the p99 of requests to the last node with keys that it does not hold.
func lookUp(ctx context.Context, r *fleet.Region, keys []string) (time.Duration, error) {
	took := make([]time.Duration, len(keys))
	for i, key := range keys {
		began := time.Now()
		if status, _ := r.Get(ctx, r.Nodes[len(r.Nodes)-1], "agents/me", key); status != http.StatusOK {
			return 0, fmt.Errorf("look up a key: status %d", status)
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return harness.Quantile(took, .99), nil
}

// slowAttack counts the subscribe requests that it has under way.
type slowAttack struct {
	underWay atomic.Int32
	cancel   context.CancelFunc
	requests sync.WaitGroup
}

// beginSlowSubscribes sends the requests of one test key of a new account to the first
// node, and returns when they wait for names. Each is sent again once it is answered, as
// long as the key's rate limit allows.
func beginSlowSubscribes(ctx context.Context, r *fleet.Region) (*slowAttack, error) {
	account, err := r.Admin.Account(ctx)
	if err != nil {
		return nil, err
	}
	key, err := r.Admin.CreateKey(ctx, account, adminapi.NewKey{Environment: new("test"), Scopes: adminapi.Scopes()})
	if err != nil {
		return nil, err
	}
	a := &slowAttack{}
	attack, cancel := context.WithCancel(ctx)
	a.cancel = cancel
	for i := range slowSubscribes {
		a.underWay.Add(1)
		a.requests.Go(func() {
			defer a.underWay.Add(-1)
			for status := 0; attack.Err() == nil && status != http.StatusTooManyRequests; {
				body := fmt.Sprintf(`{"target_url":"https://slow-%d.example.net/hook","events":["sentinel.fired"]}`, i)
				status, _, _ = r.Send(attack, r.Nodes[0].URL()+fleet.API+"webhooks/subscribe", fleet.Bearer(key.Plaintext), strings.NewReader(body))
			}
		})
	}
	// Nodes share the processors here, and only here: the work of receiving the requests
	// is not to be measured.
	if err := harness.Sleep(ctx, slowSettle); err != nil {
		a.end()
		return nil, err
	}
	return a, nil
}

// end cancels the requests under way.
func (a *slowAttack) end() {
	a.cancel()
	a.requests.Wait()
}
