// Bench-release measures what operators see of releases, on an origin and ten
// nodes that are a process each: how soon a release serves, whether requests fail
// while releases come and go, how soon a bad one is gone, how soon a node is up,
// and whether a node runs what it must not.
//
//	go run ./scripts/bench-release [-edge build/edge] [-nodes 10] [-only start,cold,cached,bad,refused]
//
// Releases are packed, pushed, rolled out and rolled back by the program's own
// commands. Nodes and load share this machine; nodes share the folder of compiled
// modules, which is new.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-release:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	out       io.Writer
	dir       string
	edge      string // the program
	modules   string
	timed     int // rollouts with nothing else to do
	rollouts  int
	rollbacks int
	bad       int // rollouts of a bad module
	starts    int // of a node

	*site
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench-release", flag.ContinueOnError)
	edge := flags.String("edge", "build/edge", "the program, with its modules beside it")
	nodes := flags.Int("nodes", 10, "how many")
	timed := flags.Int("timed", 5, "rollouts with nothing else to do")
	rollouts := flags.Int("rollouts", 20, "of good releases, under load")
	rollbacks := flags.Int("rollbacks", 5, "of these")
	bad := flags.Int("bad", 3, "rollouts of a bad module")
	starts := flags.Int("starts", 9, "of a node")
	only := flags.String("only", "start,cold,cached,bad,refused", "what to measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{
		out: out, dir: dir, edge: *edge, modules: filepath.Join(filepath.Dir(*edge), "modules"),
		timed: *timed, rollouts: *rollouts, rollbacks: *rollbacks, bad: *bad, starts: *starts,
	}
	began := time.Now()
	if b.site, err = b.startSite(ctx, *nodes); err != nil {
		return err
	}
	defer b.site.stop()
	b.say("an origin and %d nodes started in %.1f s", *nodes, time.Since(began).Seconds())

	for _, part := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"start", b.start}, {"cold", b.cold}, {"cached", b.cached}, {"bad", b.withdrawn}, {"refused", b.refused},
	} {
		if !slices.Contains(strings.Split(*only, ","), part.name) {
			continue
		}
		began := time.Now()
		if err := part.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		b.say("%s took %.1f s", part.name, time.Since(began).Seconds())
	}
	return nil
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

func (b *bench) figure(name string, value float64, unit string) {
	b.say("figure release.%s %.4g %s", name, value, unit)
}

// median of some values.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// poll calls done every few milliseconds until it is, for two minutes at most.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}
