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
	"partneredge/edge/backoff"
	"partneredge/edge/origin"
	"partneredge/edge/webhook"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
	"partneredge/store/ratelimit"
)

const (
	slowSubscribes = 64 // under way at once, of one test key
	slowRounds     = 5
	slowLookups    = 150 // of keys by the other node, in each half of a round
	slowSettle     = 300 * time.Millisecond
	// slowHeld is how many of them an origin holds: two whose names it looks up, and four
	// that wait behind them. It refuses more at once.
	slowHeld = 6
	// slowWait is the least that a request takes that waited: a second for a place at the
	// node, or three for its name.
	slowWait = time.Second
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
			return errors.Join(err, attack.check())
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
	refused  atomic.Pointer[string] // the last answer that came at once; nil: none
	cancel   context.CancelFunc
	requests sync.WaitGroup
}

// repeat sends a request again and again until ctx ends, or it is refused at once.
func (a *slowAttack) repeat(ctx context.Context, send func() (status int, body []byte, err error)) {
	a.underWay.Add(1)
	a.requests.Go(func() {
		defer a.underWay.Add(-1)
		for ctx.Err() == nil {
			began := time.Now()
			status, body, err := send()
			if took := time.Since(began); took < slowWait && ctx.Err() == nil {
				a.refused.Store(new(fmt.Sprintf("status %d after %v: %s, %v", status, took, body, err)))
				return
			}
		}
	})
}

// check returns an error if fewer requests are under way than an origin holds: then what was
// measured beside them was not beside the attack.
func (a *slowAttack) check() error {
	n := a.underWay.Load()
	if n >= slowHeld {
		return nil
	}
	why := ""
	if refused := a.refused.Load(); refused != nil {
		why = "; the last that was refused at once: " + *refused
	}
	return fmt.Errorf("%d slow subscribes were under way at the end, want %d at least%s", n, slowHeld, why)
}

// beginSlowSubscribes sends the requests of one test key of a new account to the first
// node, and returns when they wait for names. Each is sent again unless it is refused at
// once. The key's rate limit refuses none, or the attack might end before what is measured.
func beginSlowSubscribes(ctx context.Context, r *fleet.Region) (*slowAttack, error) {
	account, err := r.Admin.Account(ctx)
	if err != nil {
		return nil, err
	}
	key, err := r.Admin.CreateKey(ctx, account, adminapi.NewKey{Environment: new("test"), Scopes: adminapi.Scopes(), RateLimit: new(int64(ratelimit.MaxLimit))})
	if err != nil {
		return nil, err
	}
	a := &slowAttack{}
	attack, cancel := context.WithCancel(ctx)
	a.cancel = cancel
	for i := range slowSubscribes {
		a.repeat(attack, func() (int, []byte, error) {
			body := fmt.Sprintf(`{"target_url":"https://slow-%d.example.net/hook","events":["sentinel.fired"]}`, i)
			return fleet.Send(attack, r.Client, r.Nodes[0].URL()+fleet.API+"webhooks/subscribe", fleet.Bearer(key.Plaintext), strings.NewReader(body))
		})
	}
	// Nodes share the processors here, and only here: the work of receiving the requests
	// is not to be measured.
	if err := backoff.Pause(ctx, slowSettle); err != nil {
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
