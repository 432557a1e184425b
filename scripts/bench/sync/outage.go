package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// outage takes the origin away from every node and goes on asking for what they
// hold.
func (b *bench) outage(ctx context.Context) error {
	r := b.region
	paths := []string{"agents/me", "coaching/insights", "sentinels/firings"}
	var keys []string
	for range 10 {
		_, key, err := r.Admin.Key(ctx, r.Account, unlimited)
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := r.Warm(ctx, path, key); err != nil {
				return err
			}
		}
		keys = append(keys, key)
	}
	for _, relay := range r.Relays {
		relay.Cut()
	}
	var asked, served atomic.Int64
	var asking sync.WaitGroup
	tick := time.Tick(10 * time.Millisecond)
	end := time.After(b.last)
	for i := 0; ; i++ {
		asking.Go(func() {
			asked.Add(1)
			if status, _ := r.Get(ctx, r.Nodes[i%len(r.Nodes)], paths[i%len(paths)], keys[i/7%len(keys)]); status == http.StatusOK {
				served.Add(1)
			}
		})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
			continue
		case <-end:
		}
		break
	}
	asking.Wait()
	for _, n := range r.Nodes {
		up, err := b.metric(ctx, n.MetricsURL(), "edge_origin_connected", "")
		if err != nil {
			return err
		}
		if up != 0 {
			return fmt.Errorf("node %s was connected all the time", n.ID())
		}
	}
	for _, relay := range r.Relays {
		relay.Mend()
	}
	b.Printf("without the origin: %d requests in %.0f s, %d answered", asked.Load(), b.last.Seconds(), served.Load())
	b.Figure("outage_availability_pct", 100*float64(served.Load())/float64(asked.Load()), "%")
	return nil
}
