// Command http measures what the sandboxes cost a partner, beside the same pipeline and
// handlers in plain Go on net/http with the same buntdb and a node's own settings, and
// beside the same pipeline as a JavaScript worker in as many processes of workerd as
// there are processors, and as a guest of other hosts in Go. All servers and the load
// run on this machine, in turn.
//
//	go run ./scripts/bench/http [-edge build/edge] [-workerd PATH] [-peers DIR] [-time 3s] [-calm 6s] [-rounds 4]
//
// A node of another build of the program is measured beside it with -before, best for
// many short rounds:
//
//	go run ./scripts/bench/http -before OTHER/edge -servers node,before -time 150ms -rounds 100
//
// GET agents/me is measured by plain HTTP and by TLS 1.3, at its peak, and at 70 % of
// the node's peak. Other requests are reported, and have no figure: insights with 50
// rows, a lead by a test key, an answer without a key, and one over its limit.
//
// It ends in lines "figure NAME VALUE UNIT". A server that is not installed is said to
// be not measured, and has no figure.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"partneredge/edge/node"
	"partneredge/scripts/bench/harness"
)

func main() {
	b := &bench{Bench: harness.New("http")}
	b.Flags.StringVar(&b.edge, "edge", "build/edge", "the program")
	b.Flags.StringVar(&b.before, "before", "", "another build of the program, for the servers before and before-tls")
	b.Flags.StringVar(&b.workerd, "workerd", "build/workerd/node_modules/.bin/workerd", "workerd's program")
	b.Flags.StringVar(&b.peers, "peers", "build/peers", "the other hosts' program and its guests, in this directory")
	b.Flags.DurationVar(&b.length, "time", 3*time.Second, "of each measurement of the peak")
	b.Flags.DurationVar(&b.calm, "calm", 6*time.Second, "of each measurement at 70 % of the node's peak")
	b.Flags.IntVar(&b.rounds, "rounds", 4, "of each server, in turn")
	only := b.Flags.String("servers", "native,node,workerd,native-tls,node-tls,wazero-fresh,extism,httpwasm", "which to measure")
	b.Flags.IntVar(&b.conns, "conns", 32, "connections of the load")
	native := b.Flags.String("native", "", "serve the plain Go baseline with its store in this directory (used by the bench itself)")
	cert := b.Flags.String("tls-cert", "", "certificate of the plain Go baseline (used by the bench itself)")
	key := b.Flags.String("tls-key", "", "its key")
	b.Main(func(ctx context.Context) error {
		if *native != "" {
			return serveNative(ctx, *native, node.Config{TLSCert: *cert, TLSKey: *key})
		}
		return b.measure(ctx, strings.Split(*only, ","))
	})
}

// bench is one run.
type bench struct {
	*harness.Bench
	edge, before, workerd string        // programs
	peers                 string        // directory of the other hosts
	length, calm          time.Duration // of a measurement of the peak, and below
	rounds, conns         int

	origin  *originProcess // nil: no node was started
	servers []*server
}

func (b *bench) measure(ctx context.Context, only []string) error {
	defer b.stop()
	if err := b.start(ctx, only); err != nil {
		return err
	}
	for round := range b.rounds + 1 { // the first warms up
		for i := range b.servers {
			s := b.servers[(i+round)%len(b.servers)] // none is always behind the same one
			if err := b.peak(ctx, s, round > 0); err != nil {
				return fmt.Errorf("load %s: %w", s.name, err)
			}
		}
		if round == 0 {
			continue
		}
		for _, part := range []func(context.Context) error{b.belowPeak, b.otherRequests} {
			if err := part(ctx); err != nil {
				return err
			}
		}
	}
	b.report()
	return b.memory(ctx)
}

func (b *bench) start(ctx context.Context, only []string) error {
	for _, s := range []struct {
		name  string
		start func(ctx context.Context, tls bool) (*server, error)
		tls   bool
	}{
		{"native", b.startNative, false}, {"node", b.startNode(b.edge, "node"), false}, {"workerd", b.startWorkerd, false},
		{"native-tls", b.startNative, true}, {"node-tls", b.startNode(b.edge, "node-tls"), true},
		{"before", b.startNode(b.before, "before"), false}, {"before-tls", b.startNode(b.before, "before-tls"), true},
		{"wazero-fresh", b.startPeer("wazero"), false}, {"extism", b.startPeer("extism"), false}, {"httpwasm", b.startPeer("httpwasm"), false},
	} {
		if !slices.Contains(only, s.name) {
			continue
		}
		started, err := s.start(ctx, s.tls)
		if errors.Is(err, errNotInstalled) {
			b.Printf("NOT MEASURED: %s: %v", s.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("start %s: %w", s.name, err)
		}
		b.Printf("%-12s %s", s.name, guarantees[s.name])
		started.name, started.others = s.name, map[string][]float64{}
		b.servers = append(b.servers, started)
	}
	return nil
}

func (b *bench) stop() {
	for _, s := range b.servers {
		s.stop()
	}
	if b.origin != nil {
		stop(&b.origin.Process)
	}
}

// server returns a server that is measured, nil if it is not.
func (b *bench) server(name string) *server {
	for _, s := range b.servers {
		if s.name == name {
			return s
		}
	}
	return nil
}

// peak measures a server at its peak.
func (b *bench) peak(ctx context.Context, s *server, counts bool) error {
	length := b.length
	if s.brief {
		length /= 4
	}
	peak, err := load(ctx, s, work{request: me, conns: b.conns, length: length})
	if err != nil || !counts {
		return err
	}
	s.peaks = append(s.peaks, peak.perSecond())
	s.cpu = append(s.cpu, peak.cpuMicros())
	b.Printf("%-12s %8.0f requests a second, p50 %v, p99 %v, %.0f us of its processors' time each",
		s.name, peak.perSecond(), peak.quantile(.5), peak.quantile(.99), peak.cpuMicros())
	return nil
}

// belowPeak measures plain Go and the node, each with the same load: 70 % of what the
// node can do.
func (b *bench) belowPeak(ctx context.Context) error {
	native, n := b.server("native"), b.server("node")
	if native == nil || n == nil {
		return nil
	}
	for _, s := range []*server{native, n} {
		calm, err := load(ctx, s, work{me, b.conns, b.calm, .7 * n.peaks[len(n.peaks)-1]})
		if err != nil {
			return fmt.Errorf("load %s: %w", s.name, err)
		}
		s.p99s = append(s.p99s, calm.quantile(.99).Seconds())
		b.Printf("%-12s at 70 %% of the node's peak: %8.0f requests a second, p50 %v, p99 %v", s.name, calm.perSecond(), calm.quantile(.5), calm.quantile(.99))
	}
	return nil
}

// otherRequests measures plain Go and the node with other requests.
func (b *bench) otherRequests(ctx context.Context) error {
	if b.server("native") == nil || b.server("node") == nil {
		return nil
	}
	for _, r := range others {
		for _, name := range []string{"native", "node"} {
			s := b.server(name)
			peak, err := load(ctx, s, work{request: r, conns: b.conns, length: b.length / 4})
			if err != nil {
				return fmt.Errorf("load %s: %w", name, err)
			}
			s.others[r.name] = append(s.others[r.name], peak.perSecond())
		}
	}
	return nil
}

// connections are how many the node's memory is measured with, those of the load among
// them.
const connections = 1000

// memory measures the most memory that the node has under load, while most connections are
// idle.
func (b *bench) memory(ctx context.Context) error {
	s := b.server("node")
	if s == nil {
		return nil
	}
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			_ = c.Close()
		}
	}()
	for i := range connections - b.conns {
		c, err := s.dial(ctx, i)
		if err != nil {
			return err
		}
		idle = append(idle, c)
		if err := ask(c, bufio.NewReader(c), me.text(s, i), me); err != nil {
			return err
		}
	}
	most, err := harness.MostBeside(100*time.Millisecond, func() error {
		_, err := load(ctx, s, work{request: me, conns: b.conns, length: b.length})
		return err
	}, func() (float64, error) { return harness.ResidentMiB(s.pid) })
	if err != nil {
		return err
	}
	b.Figure("node_mib", most, "MiB")
	return nil
}

func (b *bench) report() {
	for _, s := range b.servers {
		b.Figure(strings.ReplaceAll(s.name, "-", "_")+"_rps", harness.Median(s.peaks), "1/s")
	}
	b.ratio("node_over_native", "node", "native", func(s *server) []float64 { return s.peaks })
	b.ratio("cpu_us_over_native", "node", "native", func(s *server) []float64 { return s.cpu })
	b.ratio("tls_node_over_native", "node-tls", "native-tls", func(s *server) []float64 { return s.peaks })
	b.ratio("tls_cpu_us_over_native", "node-tls", "native-tls", func(s *server) []float64 { return s.cpu })
	b.ratio("node_over_before", "node", "before", func(s *server) []float64 { return s.peaks })
	b.ratio("cpu_us_over_before", "node", "before", func(s *server) []float64 { return s.cpu })
	b.ratio("tls_node_over_before", "node-tls", "before-tls", func(s *server) []float64 { return s.peaks })
	b.ratio("tls_cpu_us_over_before", "node-tls", "before-tls", func(s *server) []float64 { return s.cpu })
	b.ratio("node_over_workerd", "node", "workerd", func(s *server) []float64 { return s.peaks })
	for _, peer := range []string{"wazero-fresh", "extism", "httpwasm"} {
		b.ratio("node_over_"+strings.ReplaceAll(peer, "-", "_"), "node", peer, func(s *server) []float64 { return s.peaks })
	}
	b.ratio("p99_over_native", "node", "native", func(s *server) []float64 { return s.p99s })
	if native, n := b.server("native"), b.server("node"); native != nil && n != nil {
		for _, r := range others {
			b.Printf("%-12s native %8.0f, node %8.0f requests a second: %.2f", r.name,
				harness.Median(native.others[r.name]), harness.Median(n.others[r.name]), harness.Ratio(n.others[r.name], native.others[r.name]))
		}
	}
}

// ratio keeps the ratio of what was measured of two servers in the same rounds.
func (b *bench) ratio(name, of, to string, measured func(*server) []float64) {
	if x, y := b.server(of), b.server(to); x != nil && y != nil {
		b.Figure(name, harness.Ratio(measured(x), measured(y)), "ratio")
	}
}
