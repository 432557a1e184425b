// Command abuse measures what one stranger, partner, endpoint or module that misuses
// the service does to everybody else:
//
//	go run ./scripts/bench/abuse [-only NAME,NAME]
//
// Each case is a file of its own: it runs one attack and measures those who have no
// part in it, or how far the attack gets beyond its limits. Cases run one after the
// other, so that none disturbs another.
//
// It ends in lines "figure abuse.NAME VALUE UNIT".
package main

import (
	"context"
	"path/filepath"

	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

func main() {
	b := &bench{Bench: harness.New("abuse")}
	cases := []harness.Part{
		{Name: "slow_dns", Measure: b.slowDNS},
		{Name: "unknown_keys", Measure: b.unknownKeys},
		{Name: "mute_origin", Measure: b.muteOrigin},
		{Name: "others_served", Measure: b.heldConnections},
		{Name: "hanging", Measure: b.hanging},
		{Name: "guests", Measure: b.guests},
	}
	b.OnlyOf(cases)
	b.Flags.StringVar(&b.modules, "modules", "build/modules", "`DIR` of the nodes' modules")
	b.Flags.StringVar(&b.cache, "cache", "build/cache", "`DIR` of compiled modules")
	b.Main(func(ctx context.Context) error { return b.RunInTurn(ctx, cases) })
}

// bench is one run.
type bench struct {
	*harness.Bench
	modules string
	cache   string
}

// region returns an origin with nodes for the case called name. What c leaves out is
// filled in. The caller stops the region.
func (b *bench) region(ctx context.Context, name string, c fleet.RegionConfig) (_ *fleet.Region, err error) {
	c.Dir, c.Modules = filepath.Join(b.Dir, name), b.modules
	if c.Cache, err = filepath.Abs(b.cache); err != nil {
		return nil, err
	}
	return fleet.StartRegion(ctx, c)
}
