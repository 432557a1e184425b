// Bench-sync measures ten nodes and an origin that is 40 ms away, each way:
// how well they keep one limit, how soon a revoked key is dead, what an outage
// does, and whether leads survive processes that are killed.
//
//	go run ./scripts/bench-sync [-edge build/edge] [-seconds 60] [-only limits,revocation,accept,outage,kills]
//
// Nodes, origin and load share this machine and one process, but for those that
// are killed, which are processes of their own. Every request is HTTP and runs
// through the modules.
//
// It ends in lines "figure NAME VALUE UNIT".
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// delay is how far away the origin is, one way.
const delay = 40 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-sync:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	out     io.Writer
	dir     string
	edge    string // the program
	modules string
	cache   string
	last    time.Duration // of the loads and of the outage
	leads   int
	kills   int

	region *region
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench-sync", flag.ContinueOnError)
	edge := flags.String("edge", "build/edge", "the program, with its modules beside it")
	cache := flags.String("cache", "build/cache", "`DIR` of compiled modules")
	seconds := flags.Int("seconds", 60, "of the loads, and of the outage")
	nodes := flags.Int("nodes", 10, "how many")
	leads := flags.Int("leads", 10_000, "to send while processes are killed")
	kills := flags.Int("kills", 20, "of a node and of an origin, in turn")
	only := flags.String("only", "limits,revocation,accept,outage,kills", "what to measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-sync-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{
		out: out, dir: dir, edge: *edge, modules: filepath.Join(filepath.Dir(*edge), "modules"),
		last: time.Duration(*seconds) * time.Second, leads: *leads, kills: *kills,
	}
	if b.cache, err = filepath.Abs(*cache); err != nil {
		return err
	}
	began := time.Now()
	if b.region, err = startRegion(ctx, b, *nodes); err != nil {
		return err
	}
	defer b.region.stop()
	b.say("%d nodes and an origin started in %.1f s", *nodes, time.Since(began).Seconds())

	wanted := func(what string) bool { return slices.Contains(strings.Split(*only, ","), what) }
	// The outage leaves the processors free, so leads are sent and processes
	// killed meanwhile; those have an origin of their own.
	for _, together := range [][]part{
		{{"accept", b.accept}},
		{{"limits", b.limits}},
		{{"revocation", b.revocation}},
		{{"outage", b.outage}, {"kills", b.killing}},
	} {
		group, within := errgroup.WithContext(ctx)
		for _, p := range together {
			if !wanted(p.name) {
				continue
			}
			group.Go(func() error {
				began := time.Now()
				if err := p.measure(within); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				b.say("%s took %.1f s", p.name, time.Since(began).Seconds())
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

type part struct {
	name    string
	measure func(context.Context) error
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

func (b *bench) figure(name string, value float64, unit string) {
	b.say("figure sync.%s %.4g %s", name, value, unit)
}

// percentile of sorted values.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}
