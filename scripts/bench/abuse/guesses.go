package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

const (
	guessEvery    = time.Millisecond // between two made-up keys
	guessesAtMost = 2000             // under way
)

// order says what a process of the bench's own does until its input ends.
type order struct {
	Guess string // base URL at which it guesses keys; empty: it is the harmless server
	Dial  bool   // guess over a new connection each time
}

// runChild carries an order out.
func runChild(ctx context.Context, what order, in io.Reader, out io.Writer) error {
	if what.Guess == "" {
		return serveHarmless(in, out)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	g := newGenerator(what)
	fmt.Fprintln(out, "ready")
	g.run(ctx)
	return json.NewEncoder(out).Encode(&g.guesses)
}

// serveHarmless answers every request as a node answers an unknown key, after the time
// in which a node has asked its origin. It prints its URL.
func serveHarmless(in io.Reader, out io.Writer) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * guessDelay)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"unauthorized","reason":"unknown_api_key"}`)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	fmt.Fprintln(out, "http://"+ln.Addr().String())
	_, _ = io.Copy(io.Discard, in)
	err = server.Close()
	if failed := <-done; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// startHarmless starts serveHarmless in a process of its own.
func startHarmless(ctx context.Context) (*harness.Child, string, error) {
	child, err := harness.StartChild(ctx, order{})
	if err != nil {
		return nil, "", err
	}
	url := bufio.NewScanner(child.Out)
	if !url.Scan() {
		return nil, "", errors.Join(errors.New("the harmless server did not start"), child.Stop())
	}
	return child, url.Text(), nil
}

// guesses counts requests with made-up keys.
type guesses struct {
	Sent     int
	Withheld int           // too many were under way when they were due
	Statuses map[int]int   // of the answers
	Failed   int           // requests without an answer
	Failure  string        // of the first of them
	Cut      int           // requests under way at the end
	Dialed   int           // connections
	Took     time.Duration // from the first to the last
}

// perSecond returns how many guesses were sent a second.
func (g *guesses) perSecond() float64 { return float64(g.Sent) / g.Took.Seconds() }

func (g *guesses) String() string {
	s := fmt.Sprintf("%d guesses, %.0f a second, over %d connections: %d were refused as unknown, %d for want of room",
		g.Sent, g.perSecond(), g.Dialed, g.Statuses[http.StatusUnauthorized], g.Statuses[http.StatusInternalServerError])
	for _, status := range slices.Sorted(maps.Keys(g.Statuses)) {
		if status != http.StatusUnauthorized && status != http.StatusInternalServerError {
			s += fmt.Sprintf(", %d got status %d", g.Statuses[status], status)
		}
	}
	s += fmt.Sprintf(", %d were under way at the end, %d not sent for want of room there", g.Cut, g.Withheld)
	if g.Failed > 0 {
		s += fmt.Sprintf(", %d failed (%s)", g.Failed, g.Failure)
	}
	return s
}

// check returns an error when the attack was not the intended one, so that nothing
// follows from what others felt of it. A mute origin refuses no key as unknown.
func (g *guesses) check(mute bool) error {
	const intended = float64(time.Second / guessEvery)
	judged := g.Statuses[http.StatusUnauthorized] + g.Statuses[http.StatusInternalServerError]
	switch {
	case g.perSecond() < intended/2:
		return fmt.Errorf("less than half of %.0f guesses a second were sent: %v", intended, g)
	case judged < g.Sent/2:
		return fmt.Errorf("less than half of the guesses were judged by the node: %v", g)
	case !mute && g.Statuses[http.StatusUnauthorized] == 0:
		return fmt.Errorf("no guess was refused as unknown: %v", g)
	}
	return nil
}

// generator sends requests with made-up keys.
type generator struct {
	guesses
	url      string
	client   *http.Client
	first    uint32 // number of the first client
	mu       sync.Mutex
	requests sync.WaitGroup
}

func newGenerator(what order) *generator {
	g := &generator{url: what.Guess + fleet.API + "agents/me", first: mathrand.Uint32()}
	g.Statuses = map[int]int{}
	g.client = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: guessesAtMost,
		DisableKeepAlives:   what.Dial,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			g.count(func() { g.Dialed++ })
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	return g
}

func (g *generator) count(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// run sends a request whenever one is due, until ctx ends. A time that was missed is made
// up for at once, so that a busy machine gets as many.
func (g *generator) run(ctx context.Context) {
	room := make(chan struct{}, guessesAtMost)
	began := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		if wait := time.Until(began.Add(time.Duration(n) * guessEvery)); wait > 0 && backoff.Pause(ctx, wait) != nil {
			break
		}
		select {
		case room <- struct{}{}:
		default:
			g.count(func() { g.Withheld++ })
			continue
		}
		g.count(func() { g.Sent++ })
		g.requests.Go(func() {
			defer func() { <-room }()
			g.guess(ctx, g.first+uint32(n))
		})
	}
	g.Took = time.Since(began)
	g.requests.Wait()
}

// guess sends one request of the client called n, which has a /48 of its own.
func (g *generator) guess(ctx context.Context, n uint32) {
	var random [apikey.RandomSize]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	header := fleet.Bearer(apikey.Mint(abi.EnvLive, &random))
	header.Set("X-Forwarded-For", fmt.Sprintf("2001:%x:%x::1", n>>16, n&0xffff))
	status, _, err := fleet.Send(ctx, g.client, g.url, header, nil)
	g.count(func() {
		switch {
		case err == nil:
			g.Statuses[status]++
		case ctx.Err() != nil:
			g.Cut++
		default:
			if g.Failed++; g.Failed == 1 {
				g.Failure = err.Error()
			}
		}
	})
}

// flood is a generator in a process of its own.
type flood struct {
	child *harness.Child
	out   *bufio.Reader
}

// beginFlood returns once guesses are sent.
func beginFlood(ctx context.Context, what order) (*flood, error) {
	child, err := harness.StartChild(ctx, what)
	if err != nil {
		return nil, err
	}
	f := &flood{child, bufio.NewReader(child.Out)}
	if _, err := f.out.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("start the guesses: %w", err), child.Stop())
	}
	return f, nil
}

// end cancels the guesses under way, and returns what came of them.
func (f *flood) end() (g guesses, err error) {
	err = f.child.In.Close()
	err = errors.Join(err, json.NewDecoder(f.out).Decode(&g))
	return g, errors.Join(err, f.child.Wait())
}
