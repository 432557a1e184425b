// Command sync measures ten nodes and an origin that is 40 ms away, each way:
// how well they keep one limit, how soon a revoked key is dead, what an outage
// does, and whether leads survive processes that are killed.
//
//	go run ./scripts/bench/sync [-edge build/edge] [-time 1m] [-only limits,revocation,accept,outage,kills]
//
// Nodes, origin and load share this machine and one process, but for those that
// are killed, which are processes of their own. Every request is HTTP and runs
// through the modules.
//
// It ends in lines "figure NAME VALUE UNIT".
package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"partneredge/edge/node"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
	"partneredge/store/local"
)

// delay is the one-way latency to the origin.
const delay = 40 * time.Millisecond

func main() {
	b := &bench{Bench: harness.New("sync")}
	b.Only("limits", "revocation", "accept", "outage", "kills")
	b.Flags.StringVar(&b.edge, "edge", "build/edge", "the program, with its modules beside it")
	b.Flags.StringVar(&b.cache, "cache", "build/cache", "`DIR` of compiled modules")
	b.Flags.DurationVar(&b.last, "time", time.Minute, "of the loads, and of the outage")
	b.Flags.IntVar(&b.nodes, "nodes", 10, "how many")
	b.Flags.IntVar(&b.leads, "leads", 10_000, "to send while processes are killed")
	b.Flags.IntVar(&b.kills, "kills", 20, "of a node and of an origin, in turn")
	b.Main(b.measure)
}

// bench is one run.
type bench struct {
	*harness.Bench
	edge  string // the program
	cache string
	last  time.Duration // of the loads and of the outage
	nodes int
	leads int
	kills int

	region *fleet.Region
}

func (b *bench) measure(ctx context.Context) (err error) {
	if b.cache, err = filepath.Abs(b.cache); err != nil {
		return err
	}
	began := time.Now()
	b.region, err = fleet.StartRegion(ctx, fleet.RegionConfig{
		Dir: b.Dir, Modules: filepath.Join(filepath.Dir(b.edge), "modules"), Cache: b.cache, Nodes: b.nodes, Delay: delay,
		// All requests come from one address, and revoked keys are used again.
		ChangeNode: func(c *node.Config) { c.Lockout = local.LockoutRules{Failures: 1 << 30} },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.region.Stop()) }()
	b.Printf("%d nodes and an origin started in %.1f s", b.nodes, time.Since(began).Seconds())

	// The outage leaves the processors free, so leads are sent and processes
	// killed meanwhile; those have an origin of their own.
	for _, together := range [][]harness.Part{
		{{Name: "accept", Measure: b.accept}},
		{{Name: "limits", Measure: b.limits}},
		{{Name: "revocation", Measure: b.revocation}},
		{{Name: "outage", Measure: b.outage}, {Name: "kills", Measure: b.killing}},
	} {
		if err := b.Run(ctx, together...); err != nil {
			return err
		}
	}
	return nil
}
