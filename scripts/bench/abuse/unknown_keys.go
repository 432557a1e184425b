package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/node"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

const (
	guessRounds = 6
	guessDelay  = 80 * time.Millisecond // between the origin and the node, one way
	guessSettle = 300 * time.Millisecond
	heldTime    = 600 * time.Millisecond // of requests with the held key, in each half of a round
	heldAtLeast = 100                    // of them
	heldPause   = time.Millisecond
)

// guessing is a case: a stream of 1 000 well-formed unknown keys a second, each from a
// /48 of its own, beside requests with a key that the node holds. The origin is 80 ms
// away.
type guessing struct {
	name     string
	mute     bool // the origin is connected and answers nothing
	dial     bool // each guess comes over a new connection
	harmless bool // the guesses go to a server that has nothing to do with the node
}

// guessing returns the part of the bench that measures g.
func (b *bench) guessing(g guessing) harness.Part {
	return harness.Part{Name: g.name, Measure: func(ctx context.Context) error { return b.guesses(ctx, g) }}
}

// guesses compares how long requests with the held key take beside guesses to how long
// they take alone.
func (b *bench) guesses(ctx context.Context, g guessing) (err error) {
	r, err := b.region(ctx, g.name, fleet.RegionConfig{Nodes: 1, Delay: guessDelay, ChangeNode: func(c *node.Config) {
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
	what := order{Guess: r.Nodes[0].URL(), Dial: g.dial}
	if g.harmless {
		var server *harness.Child
		if server, what.Guess, err = startHarmless(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
	}
	h := newHolder(r.Region, key)
	defer h.client.CloseIdleConnections()
	var ratios []float64
	for round := range guessRounds {
		var alone, beside time.Duration
		var sent guesses
		err := measureHalves(round, func() (err error) {
			alone, err = h.measure(ctx)
			return err
		}, func() (err error) {
			beside, sent, err = g.beside(ctx, h, what)
			return err
		})
		if err != nil {
			return err
		}
		ratios = append(ratios, float64(beside)/float64(alone))
		b.Printf("%s: p99 of a held key %v, beside guesses %v; %v", g.name, alone, beside, &sent)
		if err := sent.check(g.mute); err != nil {
			return err
		}
	}
	b.Figure("held_key_ratio."+g.name, harness.Median(ratios), "ratio")
	return nil
}

// beside returns what h measures beside guesses, and what came of them.
func (g guessing) beside(ctx context.Context, h *holder, what order) (p99 time.Duration, sent guesses, err error) {
	// The lookups of a flood before have ended, and the node holds the key, before its
	// origin is mute.
	if err := h.settle(ctx); err != nil {
		return 0, sent, err
	}
	if g.mute {
		h.region.Relays[0].Stall()
		defer h.region.Relays[0].Mend()
	}
	flood, err := beginFlood(ctx, what)
	if err != nil {
		return 0, sent, err
	}
	p99, err = h.measure(ctx)
	sent, failed := flood.end()
	return p99, sent, errors.Join(err, failed)
}

// holder sends requests with a key that the node holds, over one connection.
type holder struct {
	region *fleet.Region
	key    string
	client *http.Client
	dialed atomic.Int64
}

func newHolder(r *fleet.Region, key string) *holder {
	h := &holder{region: r, key: key}
	h.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		h.dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}}}
	return h
}

func (h *holder) ask(ctx context.Context) error {
	status, _, err := fleet.Send(ctx, h.client, h.region.Nodes[0].URL()+fleet.API+"agents/me", fleet.Bearer(h.key), nil)
	if err != nil {
		return fmt.Errorf("ask with a held key: %w", err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("ask with a held key: status %d", status)
	}
	return nil
}

// settle returns once what began or ended just before has settled, and the key is held.
func (h *holder) settle(ctx context.Context) error {
	if err := backoff.Pause(ctx, guessSettle); err != nil {
		return err
	}
	return h.ask(ctx)
}

// measure returns the p99 of requests with the key.
func (h *holder) measure(ctx context.Context) (time.Duration, error) {
	if err := h.settle(ctx); err != nil {
		return 0, err
	}
	dialed := h.dialed.Load()
	var took []time.Duration
	for first := time.Now(); time.Since(first) < heldTime || len(took) < heldAtLeast; {
		began := time.Now()
		if err := h.ask(ctx); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
		if err := backoff.Pause(ctx, heldPause); err != nil {
			return 0, err
		}
	}
	if h.dialed.Load() > dialed {
		return 0, errors.New("requests with a held key did not keep their connection")
	}
	slices.Sort(took)
	return harness.Quantile(took, .99), nil
}
