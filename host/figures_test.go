package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"partneredge/host/memory"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/route"
)

// BenchmarkFigures measures what sandboxes cost and prints a line "figure NAME VALUE
// UNIT" for each. A ratio is the median of alternating rounds, so that whatever else the
// machine does weighs on both sides.
//
//	go test -run '^$' -bench Figures -benchtime 1x ./host
func BenchmarkFigures(b *testing.B) {
	for range b.N {
		figure("sandbox.fresh_over_reuse", freshOverReuse(b), "ratio")
		figure("sandbox.guard_over_unguarded", guardOverUnguarded(b), "ratio")
		figure("sandbox.routes_cost", routesCost(b), "ratio")
		idle, clone := cloneCost(b)
		if !math.IsNaN(idle) {
			figure("sandbox.idle_kib", idle, "KiB")
		}
		figure("sandbox.clone_us", clone, "us")
		figure("sandbox.endless_loop_ms", endlessLoop(b), "ms")
		figure("sandbox.gc_pause_ratio", pauseRatio(b), "ratio")
	}
}

func figure(name string, value float64, unit string) {
	fmt.Printf("figure %s %.3f %s\n", name, value, unit)
}

// sample has the data for the requests that are measured.
type sample struct{ Views }

func (sample) AppendKey(_ context.Context, dst, _ []byte) ([]byte, error) {
	key := abi.Key{ID: "key_1", AccountID: "acc_1", Environment: abi.EnvLive, Scopes: abi.ReadAgent, RateLimit: 100}
	return key.Append(dst), nil
}

func (sample) Take(context.Context, string, int) (abi.Bucket, error) {
	return abi.Bucket{Allowed: true, Limit: 100, Remaining: 99, ResetMS: 600}, nil
}

func (sample) AppendProfile(_ context.Context, dst []byte, p abi.Principal) ([]byte, error) {
	profile := abi.Profile{AgentID: "agt_1", Email: "ada@example.com", FullName: "Ada Agent", Joined: 1.7e15,
		AccountID: p.AccountID, AccountName: "Ada Homes", Mode: "live"}
	return profile.Append(dst), nil
}

// pair has the gate and the handler answer GET agents/me, behind the HTTP front that
// nodes use. Only the network is missing.
type pair struct {
	gate, handler *Module
	server        *httpfront.Front
	request       *http.Request
	answer        discard
}

// caller is a function that calls a module.
type caller func(ctx context.Context, req *abi.Request, resp *abi.Response) error

func (c caller) Call(ctx context.Context, req *abi.Request, resp *abi.Response) error {
	return c(ctx, req, resp)
}

// discard is a ResponseWriter that keeps nothing but the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// openPair opens the modules; way makes the function that calls each.
func openPair(t testing.TB, limits Limits, way func(*Module) caller) *pair {
	return openRouted(t, limits, way, route.Contract())
}

// openRouted is openPair with a route table.
func openRouted(t testing.TB, limits Limits, way func(*Module) caller, routes abi.Routes) *pair {
	ctx := context.Background()
	r, err := New(ctx, Config{CacheDir: CacheDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(ctx) })
	p := &pair{answer: discard{header: http.Header{}}}
	caps := Capabilities{Keys: sample{}, Buckets: sample{}, Lockouts: lockouts{}, Views: sample{}, Routes: routes}
	for name, m := range map[string]**Module{"gate": &p.gate, "agents": &p.handler} {
		var manifest Manifest
		text, err := os.ReadFile(filepath.Join("../wasm/modules", name, "manifest.json"))
		if err == nil {
			err = json.Unmarshal(text, &manifest)
		}
		if err != nil {
			t.Fatal(err)
		}
		if *m, err = r.Open(ctx, Build(t, "partneredge/wasm/modules/"+name), manifest, caps, limits); err != nil {
			t.Fatal(err)
		}
	}
	set := &httpfront.Modules{Gate: httpfront.Module{Caller: way(p.gate), Headers: p.gate.manifest.Headers},
		Handlers: map[string]httpfront.Module{"agents": {Caller: way(p.handler), Headers: p.handler.manifest.Headers}}}
	p.server = httpfront.New(httpfront.Config{Modules: set})
	random := [apikey.RandomSize]byte{1, 2, 3}
	p.request = httptest.NewRequest("GET", "/api/v2/public/agents/me", nil)
	p.request.Header.Set("Authorization", "Bearer "+apikey.Mint(abi.EnvLive, &random))
	p.run(t)
	return p
}

func (p *pair) run(t testing.TB) {
	clear(p.answer.header)
	p.server.ServeHTTP(&p.answer, p.request)
	if p.answer.status != 200 {
		t.Fatalf("status %d", p.answer.status)
	}
}

// fresh calls a module as a node does.
func fresh(m *Module) caller { return m.Call }

// dirty calls a module in a sandbox that is never reset, as other hosts do.
func dirty(m *Module) caller {
	return func(ctx context.Context, req *abi.Request, resp *abi.Response) error {
		s, failed := m.pool.get(ctx)
		if failed != nil {
			return failed
		}
		defer m.pool.put(s)
		if err := s.serve(ctx, req, resp); err != nil {
			return err
		}
		return nil
	}
}

// each returns how long f takes, on average of n times.
func each(n int, f func()) float64 {
	start := time.Now()
	for range n {
		f()
	}
	return float64(time.Since(start)) / float64(n)
}

// ratio returns how long a takes over how long b takes, as the median of many rounds.
func ratio(a, b func()) float64 {
	const rounds, n = 401, 50
	var ratios []float64
	var as, bs []float64
	for range rounds {
		y, x := each(n, b), each(n, a)
		as, bs = append(as, x), append(bs, y)
		ratios = append(ratios, x/y)
	}
	fmt.Printf("a request: %.1f us / %.1f us\n", median(as)/1e3, median(bs)/1e3)
	return median(ratios)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func freshOverReuse(b *testing.B) float64 {
	clean, used := openPair(b, Limits{}, fresh), openPair(b, Limits{}, dirty)
	return ratio(func() { clean.run(b) }, func() { used.run(b) })
}

func guardOverUnguarded(b *testing.B) float64 {
	guarded, unguarded := openPair(b, Limits{}, fresh), openPair(b, Limits{CPU: -1}, fresh)
	return ratio(func() { guarded.run(b) }, func() { unguarded.run(b) })
}

// routesCost returns how long a request takes with 500 routes over how long it takes with
// 7. The further routes lie beside agents/me and in other places, with and without
// parameters.
func routesCost(b *testing.B) float64 {
	few := route.Contract()[:7]
	many := route.Contract()
	for i := len(many); i < 500; i++ {
		path := fmt.Sprintf("%sm%d/items/{id}", route.Prefix, i)
		if i%2 == 0 {
			path = fmt.Sprintf("%sagents/m%d", route.Prefix, i)
		}
		many = append(many, abi.Route{Handler: "more", Method: "GET", Path: path, Scope: "x:more"})
	}
	if err := route.Check(many); err != nil {
		b.Fatal(err)
	}
	with, without := openRouted(b, Limits{}, fresh, many), openRouted(b, Limits{}, fresh, few)
	return ratio(func() { with.run(b) }, func() { without.run(b) })
}

// cloneCost returns the memory of one more sandbox that has answered a request, in KiB,
// not a number where it cannot be measured, and the time that making it takes, in
// microseconds.
func cloneCost(b *testing.B) (kib, us float64) {
	const n = 100
	m := openPair(b, Limits{Sandboxes: n + 8}, fresh).handler
	req := abi.Request{Method: "GET", Path: "/api/v2/public/agents/me", Random: [32]byte{1}, Now: 1,
		Principal: abi.Principal{AccountID: "acc_1", Scopes: abi.ReadAgent, Environment: abi.EnvLive}}
	settle()
	before, err := proportional()
	var list []*sandbox
	var times []float64
	for range n {
		times = append(times, each(1, func() {
			s, err := m.clone(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			list = append(list, s)
		})/1000)
	}
	for _, s := range list {
		var resp abi.Response
		if err := s.serve(context.Background(), &req, &resp); err != nil || resp.Status != 200 {
			b.Fatal(err, resp.Status)
		}
		if _, err := s.reset(); err != nil {
			b.Fatal(err)
		}
	}
	settle()
	after, _ := proportional()
	kib = (after - before) / n
	if err != nil {
		b.Logf("idle memory not measured: %v", err)
		kib = math.NaN()
	}
	for _, s := range list {
		s.close()
	}
	return kib, median(times)
}

// settle frees what the Go heap does not need, so that it does not count.
func settle() {
	for range 3 {
		debug.FreeOSMemory()
	}
}

// proportional returns the memory of the process, with its share of what it shares with
// others, in KiB.
func proportional() (float64, error) {
	f, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib float64
		if n, _ := fmt.Sscanf(lines.Text(), "Pss: %f kB", &kib); n == 1 {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("no Pss in smaps_rollup")
}

// endlessLoop returns by how many milliseconds an endless loop outlives its deadline: of
// several kinds the one that does so most, each by the median of some runs, so that a
// thread that had to wait for its processor does not count.
func endlessLoop(b *testing.B) float64 {
	const deadline = 20 * time.Millisecond
	most := 0.0
	for name, wasm := range map[string][]byte{
		"Go":     Build(b, "./testdata/hostile"),
		"loop":   assembled(whenLong(asm(0x03, 0x40, 0x0c, 0, 0x0b)), nil),
		"fills":  assembled(whenLong(asm(0x03, 0x40, num(0x2000), num(0), num(0x1d000), 0xfc, 0x0b, 0, 0x0c, 0, 0x0b)), nil),
		"divide": assembled(whenLong(asm(0x03, 0x40, bytes.Repeat(asm(num(7), 0x20, 0, 0x6d, 0x1a), 5000), 0x0c, 0, 0x0b)), nil),
	} {
		_, m, _ := openHostile(b, wasm, memory.Auto, Limits{CPU: deadline})
		var over []float64
		for range 15 {
			start := time.Now()
			if _, err := ask(m, "/spin", long); ReasonOf(err) != CPUDeadline {
				b.Fatalf("%s: %v", name, err)
			}
			over = append(over, float64(time.Since(start)-deadline)/1e6)
		}
		most = max(most, median(over))
	}
	return most
}

// pauseRatio returns how long Go's collector stops the world at most, with guests
// spinning on every processor but the one that collects, over how long without any.
func pauseRatio(b *testing.B) float64 {
	_, m, _ := openHostile(b, Build(b, "./testdata/hostile"), memory.Auto, Limits{CPU: 10 * time.Second, Wall: 10 * time.Second})
	round := func(guests int) float64 {
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		for range guests {
			group.Go(func() { _ = m.Call(ctx, &abi.Request{Method: "GET", Path: "/spin"}, &abi.Response{}) })
		}
		before := pauses()
		for range 30 {
			runtime.GC()
		}
		longest := longestPause(before, pauses())
		cancel()
		group.Wait()
		return longest
	}
	var ratios []float64
	for range 15 {
		without := round(0)
		ratios = append(ratios, round(max(1, runtime.GOMAXPROCS(0)-1))/without)
	}
	return median(ratios)
}

func pauses() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: slices.Clone(h.Counts), Buckets: slices.Clone(h.Buckets)}
}

// longestPause returns the upper end of the highest bucket that grew.
func longestPause(before, after *metrics.Float64Histogram) float64 {
	for i := len(after.Counts) - 1; i >= 0; i-- {
		if after.Counts[i] > before.Counts[i] {
			return after.Buckets[i+1]
		}
	}
	return 0
}
