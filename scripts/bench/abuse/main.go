// Command abuse measures what one stranger, partner, endpoint or module that misuses
// the service does to everybody else:
//
//	go run ./scripts/bench/abuse [-only NAME,NAME]
//
// Each case runs one attack and measures those who have no part in it, or how far the
// attack gets beyond its limits. Cases run one after the other, so that none disturbs
// another; all of them take some three minutes on a busy machine. A figure called ratio is the median
// of some rounds; every other round measures its two times in reverse order.
//
// The figures, each a line "figure abuse.NAME VALUE UNIT" at the end:
//
//   - held_key_ratio.unknown_keys: 1 000 requests a second with made-up keys come from as
//     many networks, over connections that are kept. Compares the p99 of requests with a
//     key that the node holds to the same without them. The origin is 80 ms away.
//   - held_key_ratio.unknown_keys_new_connections: the same, with a connection for each
//     made-up key.
//   - held_key_ratio.mute_origin: the same as the first, while the origin is connected
//     and answers nothing.
//   - held_key_ratio.harmless: the same as the first, but that another process answers
//     those requests, and not the node. It shows what the work of the machine alone does
//     to the held key; what the others are above it is the node's.
//   - other_node_key_ratio.slow_dns: a test key subscribes endpoints whose name server
//     never answers. Compares the p99 of key lookups through another node to the same
//     without them.
//   - others_served: of 100 clients, those that are served while one address holds all
//     the connections that it can.
//   - healthy_delivery_s.3000_hanging and .new_endpoint: the p99 from an event to its
//     delivery, beside 3 000 endpoints that hang: to an endpoint that failed once, and to
//     new ones.
//   - cpu_overrun_ms, wall_overrun_ms: how far the worst hostile guest gets beyond its
//     limit of processor time, and of time.
//   - stop_the_world_ms: how long it then takes to stop all goroutines.
//   - memory_over_ceiling: the memory of a process with 32 sandboxes of the worst guest,
//     over the bound that is set for them.
//
// The made-up keys come from a process of their own, whose garbage the node does not
// collect. The bench fails when less than half of them are sent in time, when the node
// judges less than half of those, and when none is refused as unknown though the origin
// answers. It also fails when fewer subscribes wait for names than an origin holds.
package main

import (
	"context"
	"path/filepath"

	"partneredge/edge/gotuning"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

func main() {
	b := &bench{Bench: harness.New("abuse")}
	cases := []harness.Part{
		{Name: "slow_dns", Measure: b.slowDNS},
		b.guessing(guessing{name: "harmless", harmless: true}),
		b.guessing(guessing{name: "unknown_keys"}),
		b.guessing(guessing{name: "unknown_keys_new_connections", dial: true}),
		b.guessing(guessing{name: "mute_origin", mute: true}),
		{Name: "others_served", Measure: b.heldConnections},
		{Name: "hanging", Measure: b.hanging},
		{Name: "guests", Measure: b.guests},
	}
	b.OnlyOf(cases)
	b.Flags.StringVar(&b.modules, "modules", "build/modules", "`DIR` of the nodes' modules")
	b.Flags.StringVar(&b.cache, "cache", "build/cache", "`DIR` of compiled modules")
	harness.OnOrder(b.Bench, runChild)
	b.Main(func(ctx context.Context) error { return b.RunInTurn(ctx, cases) })
}

// bench is one run.
type bench struct {
	*harness.Bench
	modules string
	cache   string
}

// region is an origin with nodes, in a process that is tuned as a node's is.
type region struct {
	*fleet.Region
	untune func()
}

// region returns a region for the case called name. What c leaves out is filled in. The
// caller stops the region.
func (b *bench) region(ctx context.Context, name string, c fleet.RegionConfig) (_ *region, err error) {
	c.Dir, c.Modules = filepath.Join(b.Dir, name), b.modules
	if c.Cache, err = filepath.Abs(b.cache); err != nil {
		return nil, err
	}
	r := &region{untune: gotuning.Start(ctx)}
	if r.Region, err = fleet.StartRegion(ctx, c); err != nil {
		r.untune()
		return nil, err
	}
	return r, nil
}

// Stop stops the region.
func (r *region) Stop() error {
	defer r.untune()
	return r.Region.Stop()
}

// measureHalves calls the halves of a round, those of every other round in reverse order:
// what drifts meanwhile favours neither.
func measureHalves(round int, alone, beside func() error) error {
	if round%2 == 1 {
		alone, beside = beside, alone
	}
	if err := alone(); err != nil {
		return err
	}
	return beside()
}
