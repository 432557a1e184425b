package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/backoff"
	"partneredge/edge/webhook"
	"partneredge/scripts/bench/harness"
	"partneredge/scripts/bench/hooks"
)

const (
	healthyEndpoints = 100_000
	healthyAccounts  = 1000
	healthyHanging   = 5  // one of so many hangs, in each account
	healthyPerSecond = 20 // events, each for all endpoints of an account
	healthyEvents    = healthyAccounts
	healthyLast      = 10 * time.Second // that the last deliveries may take
	deafPorts        = 16
)

// healthy makes one in five of 100 000 endpoints accept connections and never answer, and
// measures how long deliveries to the others wait, from their event's write to their
// arrival. None is known to the sender when it begins.
func (b *bench) healthy(ctx context.Context, s *site) error {
	if err := s.accounts(ctx, healthyAccounts); err != nil {
		return err
	}
	r, err := s.receive()
	if err != nil {
		return err
	}
	if err := s.subscribe(ctx, healthyEndpoints, healthyAccounts, r.URL+"/"); err != nil {
		return err
	}
	deaf, err := s.startDeaf(ctx)
	if err != nil {
		return err
	}
	// In the order of numbers, each account has an endpoint in each thousand.
	_, err = s.SQL.ExecContext(ctx, `UPDATE subscriptions SET target_url = 'https://' || ($1::text[])[1 + i % array_length($1::text[], 1)] || '/' || i
		FROM generate_series(1, $2::int) i
		WHERE subscriptions.id = 'whs_' || lpad(i::text, 26, '0') AND i / $3::int % $4::int = 0`,
		deaf, healthyEndpoints, healthyAccounts, healthyHanging)
	if err != nil {
		return err
	}
	if _, err := s.SQL.ExecContext(ctx, `ANALYZE subscriptions`); err != nil {
		return err
	}
	sender, err := s.startSender(ctx, r.CAFile)
	if err != nil {
		return err
	}
	return b.measureHealthy(ctx, s, sender, r)
}

// measureHealthy fires events for all accounts in turn.
func (b *bench) measureHealthy(ctx context.Context, s *site, sender *webhook.Sender, r *receiver) error {
	written := make(map[string]time.Time)
	var mu sync.Mutex
	var writers errgroup.Group
	tick := time.Tick(time.Second / healthyPerSecond)
	const events = healthyEvents
	for n := range events {
		<-tick
		if ctx.Err() != nil {
			return ctx.Err()
		}
		writers.Go(func() error {
			event, err := hooks.Fire(ctx, s.DB, accountID(1+n%healthyAccounts))
			if err != nil {
				return err
			}
			mu.Lock()
			written[event] = time.Now()
			mu.Unlock()
			return nil
		})
		if n%(5*healthyPerSecond) == 0 {
			b.Printf("%d events, %+v", n, sender.Stats())
		}
	}
	if err := writers.Wait(); err != nil {
		return err
	}
	want := events * healthyEndpoints / healthyAccounts * (healthyHanging - 1) / healthyHanging
	for began := time.Now(); r.Count() < want && time.Since(began) < healthyLast; {
		if err := backoff.Pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	hang := sender.Stats().Slow
	took := r.Waits(written)
	for range want - len(took) { // which have waited for longer
		took = append(took, healthyLast)
	}
	slices.Sort(took)
	p99 := harness.Quantile(took, .99).Seconds()
	var failed int
	if err := s.SQL.QueryRowContext(ctx, `SELECT count(*) FROM attempts a JOIN deliveries d ON d.id = a.delivery_id
		JOIN subscriptions s ON s.id = d.subscription_id WHERE a.status <> 200 AND starts_with(s.target_url, $1)`, r.URL).Scan(&failed); err != nil {
		return err
	}
	b.Printf("%d deliveries to endpoints that answer: p50 %.3f s, p99 %.3f s; %d tries failed and %d did not come; %d tries hang",
		want, harness.Quantile(took, .5).Seconds(), p99, failed, want-r.Count(), hang)
	b.Figure("healthy_p99_s", p99, "s")
	return nil
}

// startSender starts a webhook sender over the site's database, as an origin does.
func (s *site) startSender(ctx context.Context, caFile string) (*webhook.Sender, error) {
	sender, err := hooks.StartSender(ctx, s.DB, webhook.Config{CAFile: caFile, Log: s.log})
	if err != nil {
		return nil, err
	}
	s.AddFunc(func() {
		now, cancel := context.WithCancel(ctx)
		cancel() // what hangs is cut short
		if err := sender.Stop(now); err != nil {
			s.log.Warn("leases are left to end by themselves", "err", err)
		}
	})
	return sender, nil
}

// receiver is a server with the endpoints that answer.
type receiver struct {
	*hooks.Endpoints
	hooks.Arrivals
}

func (s *site) receive() (r *receiver, err error) {
	r = new(receiver)
	if r.Endpoints, err = hooks.Serve(s.dir, r); err == nil {
		s.AddFunc(r.Close)
	}
	return r, err
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	at := time.Now()
	_, _ = io.Copy(io.Discard, q.Body)
	r.Add(q, at)
}

// startDeaf starts a process with the endpoints that hang, since each try of them takes a
// file on both sides, and returns their addresses.
func (s *site) startDeaf(ctx context.Context) (addresses []string, err error) {
	child, err := harness.StartChild(ctx, order{Deaf: deafPorts})
	if err != nil {
		return nil, err
	}
	s.Add(func(context.Context) error { return child.Stop() })
	return addresses, json.NewDecoder(child.Out).Decode(&addresses)
}

// runDeaf accepts connections at ports of its own, prints their addresses, and answers
// nothing until in ends.
func runDeaf(ports int, in io.Reader, out io.Writer) error {
	var addresses []string
	var accepting errgroup.Group
	for range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addresses = append(addresses, l.Addr().String())
		accepting.Go(func() error {
			for {
				c, err := l.Accept()
				if err != nil {
					slog.Error("cannot accept", "err", err)
					return err
				}
				go func() {
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}()
			}
		})
	}
	if err := json.NewEncoder(out).Encode(addresses); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
