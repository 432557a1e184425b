// Bench-http measures what the sandboxes cost a partner: GET agents/me through
// a node and its modules, beside the same pipeline and handler in plain Go on
// net/http with the same buntdb, and beside the same pipeline as a JavaScript
// worker in workerd. All servers and the load run on this machine, in turn.
//
//	go run ./scripts/bench-http [-edge build/edge] [-workerd PATH] [-seconds 4] [-rounds 5]
//
// It ends in lines "figure NAME VALUE UNIT". Without workerd, its figure is
// reported as left out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-http:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench-http", flag.ContinueOnError)
	edge := flags.String("edge", "build/edge", "the program")
	workerd := flags.String("workerd", "build/workerd/node_modules/.bin/workerd", "workerd's program")
	seconds := flags.Int("seconds", 4, "of each measurement")
	rounds := flags.Int("rounds", 5, "of each server, in turn")
	only := flags.String("servers", "native,node,workerd", "which to measure")
	conns := flags.Int("conns", 32, "connections of the load")
	native := flags.String("native", "", "serve the plain Go baseline with its store in this directory (used by bench-http itself)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *native != "" {
		return serveNative(ctx, *native, out)
	}
	dir, err := os.MkdirTemp("", "bench-http-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	servers := []struct {
		name  string
		start func(context.Context, string) (*server, error)
	}{
		{"native", startNative},
		{"node", func(ctx context.Context, dir string) (*server, error) { return startNode(ctx, *edge, dir) }},
		{"workerd", func(ctx context.Context, dir string) (*server, error) { return startWorkerd(ctx, *workerd, dir) }},
	}
	running := map[string]*server{}
	for _, s := range servers {
		if !slices.Contains(strings.Split(*only, ","), s.name) {
			continue
		}
		started, err := s.start(ctx, dir)
		if errors.Is(err, errNotInstalled) {
			fmt.Fprintf(out, "left out: %s: %v\n", s.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		defer started.stop()
		running[s.name] = started
	}

	length := time.Duration(*seconds) * time.Second
	peaks, p99s := map[string][]float64{}, map[string][]float64{}
	for round := range *rounds + 1 { // the first warms up
		for _, s := range servers {
			at := running[s.name]
			if at == nil {
				continue
			}
			peak, err := load(ctx, at, *conns, length, 0)
			if err != nil {
				return fmt.Errorf("load %s: %w", s.name, err)
			}
			if round == 0 {
				continue
			}
			peaks[s.name] = append(peaks[s.name], peak.perSecond())
			fmt.Fprintf(out, "%-8s %8.0f requests a second, p50 %v, p99 %v\n", s.name, peak.perSecond(), peak.quantile(.5), peak.quantile(.99))
			if s.name == "workerd" {
				continue
			}
			// At once: what the machine can do changes from one minute to the next.
			calm, err := load(ctx, at, *conns, length, .7*peak.perSecond())
			if err != nil {
				return fmt.Errorf("load %s: %w", s.name, err)
			}
			p99s[s.name] = append(p99s[s.name], calm.quantile(.99).Seconds()*1e6)
			fmt.Fprintf(out, "%-8s at 70 %%: %8.0f requests a second, p50 %v, p99 %v\n", s.name, calm.perSecond(), calm.quantile(.5), calm.quantile(.99))
		}
	}

	for _, s := range servers {
		if len(peaks[s.name]) > 0 {
			fmt.Fprintf(out, "figure http.%s_rps %.0f 1/s\n", s.name, median(peaks[s.name]))
		}
	}
	report := func(name string, a, b []float64) {
		if len(a) > 0 && len(b) > 0 {
			fmt.Fprintf(out, "figure http.%s %.2f ratio\n", name, ratio(a, b))
		}
	}
	report("node_over_native", peaks["node"], peaks["native"])
	report("node_over_workerd", peaks["node"], peaks["workerd"])
	report("p99_over_native", p99s["node"], p99s["native"])
	return nil
}

// ratio is the median of a[i]/b[i]: what was measured in the same round.
func ratio(a, b []float64) float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return median(out)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
