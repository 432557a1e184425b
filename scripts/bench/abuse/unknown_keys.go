package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/edge/node"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

const (
	guessRounds   = 5
	guessDelay    = 80 * time.Millisecond // between the origin and the node, one way
	guessEvery    = time.Millisecond      // between two unknown keys
	guessSettle   = 300 * time.Millisecond
	heldRequests  = 1000 // with the held key, in each half of a round
	heldPause     = time.Millisecond
	guessesAtMost = 2000 // under way
)

// unknownKeys floods a node with 1 000 well-formed unknown keys a second, each from a
// /48 of its own, and compares how long requests with a key that the node holds take
// to the same without the flood. The origin is 80 ms away.
func (b *bench) unknownKeys(ctx context.Context) error { return b.guesses(ctx, "unknown_keys", false) }

// muteOrigin is unknownKeys while the origin is connected and answers nothing.
func (b *bench) muteOrigin(ctx context.Context) error { return b.guesses(ctx, "mute_origin", true) }

func (b *bench) guesses(ctx context.Context, name string, mute bool) (err error) {
	r, err := b.region(ctx, name, fleet.RegionConfig{Nodes: 1, Delay: guessDelay, ChangeNode: func(c *node.Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	_, key, err := r.Admin.Key(ctx, r.Account, 1_000_000)
	if err != nil {
		return err
	}
	var ratios []float64
	for range guessRounds {
		if err := r.Warm(ctx, "agents/me", key); err != nil {
			return err
		}
		alone, err := held(ctx, r, key)
		if err != nil {
			return err
		}
		if mute {
			r.Relays[0].Stall()
		}
		flood := beginGuesses(ctx, r)
		err = harness.Sleep(ctx, guessSettle)
		var beside time.Duration
		if err == nil {
			beside, err = held(ctx, r, key)
		}
		flood.end()
		if mute {
			r.Relays[0].Mend()
		}
		if err != nil {
			return err
		}
		ratios = append(ratios, float64(beside)/float64(alone))
		b.Printf("%s: p99 of a held key %v, in the flood %v; of %d guesses %d were refused as unknown, %d for want of room",
			name, alone, beside, flood.sent.Load(), flood.unknown.Load(), flood.refused.Load())
	}
	b.Figure("held_key_ratio."+name, harness.Median(ratios), "ratio")
	return nil
}

// held returns the p99 of requests with a key that the node holds.
func held(ctx context.Context, r *fleet.Region, key string) (time.Duration, error) {
	took := make([]time.Duration, heldRequests)
	for i := range took {
		began := time.Now()
		if status, _ := r.Get(ctx, r.Nodes[0], "agents/me", key); status != http.StatusOK {
			return 0, fmt.Errorf("ask with a held key: status %d", status)
		}
		took[i] = time.Since(began)
		if err := harness.Sleep(ctx, heldPause); err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return harness.Quantile(took, .99), nil
}

// flood is a stream of requests with made-up keys.
type flood struct {
	sent, unknown, refused atomic.Int64
	cancel                 context.CancelFunc
	requests               sync.WaitGroup
}

// beginGuesses sends a request with another made-up key every millisecond, over
// connections that have nothing to do with those of r's client.
func beginGuesses(ctx context.Context, r *fleet.Region) *flood {
	f := new(flood)
	ctx, f.cancel = context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: guessesAtMost}}
	room := make(chan struct{}, guessesAtMost)
	f.requests.Go(func() {
		tick := time.NewTicker(guessEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case room <- struct{}{}:
			default:
				continue
			}
			n := f.sent.Add(1)
			f.requests.Go(func() {
				defer func() { <-room }()
				f.guess(ctx, client, r.Nodes[0].URL(), n)
			})
		}
	})
	return f
}

func (f *flood) guess(ctx context.Context, client *http.Client, base string, n int64) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+fleet.API+"agents/me", nil)
	if err != nil {
		return
	}
	var random [apikey.RandomSize]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	req.Header = fleet.Bearer(apikey.Mint(abi.EnvLive, &random))
	req.Header.Set("X-Forwarded-For", fmt.Sprintf("2001:%x:%x::1", n>>16&0xffff, n&0xffff))
	resp, err := client.Do(req)
	if err != nil {
		return // at the end of the flood
	}
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		f.unknown.Add(1)
	case http.StatusInternalServerError:
		f.refused.Add(1)
	}
}

// end cancels the requests under way.
func (f *flood) end() {
	f.cancel()
	f.requests.Wait()
}
