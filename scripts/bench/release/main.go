// Command release measures what operators see of releases, on an origin and ten
// nodes that are a process each: how soon a module of one's own answers, how soon a
// release serves, whether requests fail
// while releases come and go, how soon a bad one is gone, how soon a node is up,
// and whether a node runs what it must not.
//
//	go run ./scripts/bench/release [-edge build/edge] [-nodes 10] [-only module,start,cold,cached,bad,refused]
//
// Releases are packed, pushed, rolled out and rolled back by the program's own
// commands. Nodes and load share this machine; nodes share the folder of compiled
// modules, which is new.
//
// It ends in lines "figure NAME VALUE UNIT".
package main

import (
	"context"
	"path/filepath"
	"time"

	"partneredge/scripts/bench/harness"
)

func main() {
	b := &bench{Bench: harness.New("release")}
	b.Only("module", "start", "cold", "cached", "bad", "refused")
	b.Flags.StringVar(&b.edge, "edge", "build/edge", "the program, with its modules beside it")
	nodes := b.Flags.Int("nodes", 10, "how many")
	b.Flags.IntVar(&b.timed, "timed", 5, "rollouts with nothing else to do")
	b.Flags.IntVar(&b.rollouts, "rollouts", 20, "of good releases, under load")
	b.Flags.IntVar(&b.rollbacks, "rollbacks", 5, "of these")
	b.Flags.IntVar(&b.bad, "bad", 3, "rollouts of a bad module")
	b.Flags.IntVar(&b.starts, "starts", 9, "of a node")
	b.Flags.IntVar(&b.authored, "authored", 3, "modules that are started and changed")
	b.Main(func(ctx context.Context) error { return b.measure(ctx, *nodes) })
}

// bench is one run.
type bench struct {
	*harness.Bench
	edge      string // the program
	timed     int    // rollouts with nothing else to do
	rollouts  int
	rollbacks int
	bad       int // rollouts of a bad module
	starts    int // of a node
	authored  int // modules that are started and changed

	*site
}

func (b *bench) measure(ctx context.Context, nodes int) (err error) {
	if err := b.Run(ctx, harness.Part{Name: "module", Measure: b.module}); err != nil {
		return err
	}
	began := time.Now()
	if b.site, err = b.startSite(ctx, nodes); err != nil {
		return err
	}
	defer b.site.stop()
	b.Printf("an origin and %d nodes started in %.1f s", nodes, time.Since(began).Seconds())
	return b.RunInTurn(ctx, []harness.Part{
		{Name: "start", Measure: b.start}, {Name: "cold", Measure: b.cold}, {Name: "cached", Measure: b.cached},
		{Name: "bad", Measure: b.withdrawn}, {Name: "refused", Measure: b.refused},
	})
}

// modules is the directory of the modules as they were built.
func (b *bench) modules() string { return filepath.Join(filepath.Dir(b.edge), "modules") }
