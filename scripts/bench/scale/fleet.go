package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/origin/replication"
	"partneredge/edge/origin/rollout"
	"partneredge/edge/wire"
	"partneredge/scripts/bench/harness"
	"partneredge/store"
	"partneredge/store/central/fleet"
)

// fleetNodes is the number of nodes that one installation is to hold.
const fleetNodes = 10_000

// fleet measures what an origin does for 10 000 nodes that report their status: a look
// at the rollout that is under way, and writing down when each was heard.
func (b *bench) fleet(ctx context.Context, s *site) error {
	ids, err := s.enrolMany(ctx, fleetNodes)
	if err != nil {
		return err
	}
	origin, err := s.startOrigin(ctx, s.DB)
	if err != nil {
		return err
	}
	if err := s.statuses(ids); err != nil {
		return err
	}
	if err := harness.Poll(ctx, "the nodes to be heard", func() (bool, error) { return origin.Presence().Connected() == fleetNodes, nil }); err != nil {
		return err
	}
	if err := b.looks(ctx, s, ids); err != nil {
		return err
	}
	return b.presence(ctx, s, ids)
}

// enrolMany enrols nodes that never connect.
func (s *site) enrolMany(ctx context.Context, n int) (ids []string, err error) {
	ids = make([]string, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(256)
	for i := range ids {
		ids[i] = fmt.Sprintf("node_%026d", i)
		group.Go(func() error {
			_, err := s.DB.AddNode(ctx, store.Node{ID: ids[i], Name: ids[i], Region: fmt.Sprint("region-", i%20), PublicKey: fmt.Sprint("U", i), WireVersion: wire.Version})
			return err
		})
	}
	return ids, group.Wait()
}

// running is the release that the nodes run.
const running = "sha256:0000000000000000000000000000000000000000000000000000000000000001"

// statuses sends the status of every node once, in the origin's own name.
func (s *site) statuses(ids []string) error {
	conn := s.Broker.Conn()
	counts := &wire.ReleaseCounts{Traffic: wire.Traffic{Requests: 1000}}
	for _, id := range ids {
		body, err := wire.Encode(&wire.Status{Region: region, Build: "bench", Running: &wire.ReleaseStatus{Digest: running, Counts: counts}})
		if err != nil {
			return err
		}
		if err := conn.Publish(wire.Subject(id, wire.VerbStatus), body); err != nil {
			return err
		}
	}
	return conn.Flush()
}

// looks measures the looks at a rollout that has reached one node in a hundred, none of
// which has answered yet.
func (b *bench) looks(ctx context.Context, s *site, ids []string) error {
	r := store.Rollout{
		Release: "rel_bench", Digest: "sha256:0000000000000000000000000000000000000000000000000000000000000002", Version: "bench",
		State: store.RollingOut, Stages: []int{1, 10, 100}, Pause: time.Minute,
	}
	for _, id := range ids {
		r.Nodes = append(r.Nodes, store.RolloutNode{ID: id, Before: running})
	}
	if _, err := s.DB.AddRollout(ctx, r); err != nil {
		return err
	}
	const looksWanted = 50
	var mu sync.Mutex
	var looks []float64
	controller := rollout.Start(rollout.Config{
		DB: s.DB, Conn: s.Broker.Conn(), Nodes: s.Origins[0].Presence(), Log: s.log, Now: time.Now,
		ObserveLook: func(took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			looks = append(looks, harness.Milliseconds(took))
		},
	})
	defer controller.Stop()
	beats := time.Tick(20 * time.Millisecond) // of one node or the other
	for i := 0; ; i++ {
		mu.Lock()
		done := len(looks) >= looksWanted
		mu.Unlock()
		if done {
			break
		}
		if err := s.statuses(ids[i%len(ids) : i%len(ids)+1]); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beats:
		}
	}
	mu.Lock()
	defer mu.Unlock()
	first := looks[0] // which reads the whole rollout
	slices.Sort(looks)
	b.Printf("a look at a rollout over %d nodes: p50 %.2f ms, most %.2f ms", len(ids), harness.Quantile(looks, .5), looks[len(looks)-1])
	b.Figure("rollout_first_look_ms", first, "ms")
	b.Figure("rollout_look_ms", harness.Quantile(looks, .5), "ms")
	return nil
}

// presence measures how long it takes to write down when each node was heard.
func (b *bench) presence(ctx context.Context, s *site, ids []string) error {
	if _, err := s.SQL.ExecContext(ctx, `ANALYZE nodes`); err != nil { // which PostgreSQL does by itself
		return err
	}
	var took []float64
	for range 21 {
		seen := make([]fleet.NodeSeen, len(ids))
		for i, id := range ids {
			seen[i] = fleet.NodeSeen{ID: id, Version: "bench", At: time.Now()}
		}
		began := time.Now()
		for some := range slices.Chunk(seen, replication.SeenAtOnce) {
			for busy := true; busy; { // while the origin writes what it heard
				var err error
				if busy, err = s.DB.SeenNodes(ctx, some); err != nil {
					return err
				}
			}
		}
		took = append(took, harness.Milliseconds(time.Since(began)))
	}
	slices.Sort(took)
	b.Printf("the presence of %d nodes is written in %.0f ms", len(ids), took)
	b.Figure("presence_ms", harness.Median(took), "ms")
	return nil
}
