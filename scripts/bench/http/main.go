// Command http measures what the sandboxes cost a partner: GET agents/me through
// a node and its modules, beside the same pipeline and handler in plain Go on
// net/http with the same buntdb and a node's own settings, and beside the same
// pipeline as a JavaScript worker in as many processes of workerd as there are
// processors. All servers and the load run on this machine, in turn.
//
//	go run ./scripts/bench/http [-edge build/edge] [-workerd PATH] [-time 4s] [-calm 10s] [-rounds 5]
//
// It ends in lines "figure NAME VALUE UNIT". Without workerd, its figure is
// reported as left out.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"partneredge/scripts/bench/harness"
)

func main() {
	b := &bench{Bench: harness.New("http")}
	b.Flags.StringVar(&b.edge, "edge", "build/edge", "the program")
	b.Flags.StringVar(&b.workerd, "workerd", "build/workerd/node_modules/.bin/workerd", "workerd's program")
	b.Flags.DurationVar(&b.length, "time", 4*time.Second, "of each measurement of the peak")
	b.Flags.DurationVar(&b.calm, "calm", 10*time.Second, "of each measurement at 70 % of the peak")
	b.Flags.IntVar(&b.rounds, "rounds", 5, "of each server, in turn")
	only := b.Flags.String("servers", "native,node,workerd", "which to measure")
	b.Flags.IntVar(&b.conns, "conns", 32, "connections of the load")
	native := b.Flags.String("native", "", "serve the plain Go baseline with its store in this directory (used by the bench itself)")
	b.Main(func(ctx context.Context) error {
		if *native != "" {
			return serveNative(ctx, *native)
		}
		return b.measure(ctx, strings.Split(*only, ","))
	})
}

// bench is one run.
type bench struct {
	*harness.Bench
	edge, workerd string        // programs
	length, calm  time.Duration // of a measurement of the peak, and below
	rounds, conns int

	servers []*server
}

func (b *bench) measure(ctx context.Context, only []string) error {
	defer func() {
		for _, s := range b.servers {
			s.stop()
		}
	}()
	for _, s := range []struct {
		name  string
		start func(context.Context) (*server, error)
	}{{"native", b.startNative}, {"node", b.startNode}, {"workerd", b.startWorkerd}} {
		if !slices.Contains(only, s.name) {
			continue
		}
		started, err := s.start(ctx)
		if errors.Is(err, errNotInstalled) {
			b.Printf("left out: %s: %v", s.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		started.name = s.name
		b.servers = append(b.servers, started)
	}
	for round := range b.rounds + 1 { // the first warms up
		for _, s := range b.servers {
			if err := b.loadOnce(ctx, s, round > 0); err != nil {
				return fmt.Errorf("load %s: %w", s.name, err)
			}
		}
	}
	b.report()
	return nil
}

// loadOnce measures a server at its peak and, but for workerd, at 70 % of that.
func (b *bench) loadOnce(ctx context.Context, s *server, counts bool) error {
	peak, err := load(ctx, s, b.conns, b.length, 0)
	if err != nil || !counts {
		return err
	}
	s.peaks = append(s.peaks, peak.perSecond())
	b.Printf("%-8s %8.0f requests a second, p50 %v, p99 %v", s.name, peak.perSecond(), peak.quantile(.5), peak.quantile(.99))
	if s.name == "workerd" {
		return nil
	}
	// At once: what the machine can do changes from one minute to the next.
	calm, err := load(ctx, s, b.conns, b.calm, .7*peak.perSecond())
	if err != nil {
		return err
	}
	s.p99s = append(s.p99s, calm.quantile(.99).Seconds())
	b.Printf("%-8s at 70 %%: %8.0f requests a second, p50 %v, p99 %v", s.name, calm.perSecond(), calm.quantile(.5), calm.quantile(.99))
	return nil
}

func (b *bench) report() {
	measured := map[string]*server{"native": {}, "node": {}, "workerd": {}}
	for _, s := range b.servers {
		measured[s.name] = s
		b.Figure(s.name+"_rps", harness.Median(s.peaks), "1/s")
	}
	node := measured["node"]
	ratio := func(name string, of, to []float64) {
		if len(of) > 0 && len(to) > 0 {
			b.Figure(name, harness.Ratio(of, to), "ratio")
		}
	}
	ratio("node_over_native", node.peaks, measured["native"].peaks)
	ratio("node_over_workerd", node.peaks, measured["workerd"].peaks)
	ratio("p99_over_native", node.p99s, measured["native"].p99s)
}
