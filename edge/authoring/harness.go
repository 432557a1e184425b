package authoring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"partneredge/host"
	"partneredge/host/compilecache"
	"partneredge/host/hosttest"
	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
)

// patience bounds the computing time of a call in a test: the machine has other work.
const patience = 10 * time.Second

// harness holds a built module in a sandbox, and all that its cases need.
type harness struct {
	project   *Project
	runtime   *host.Runtime
	module    *host.Module
	clock     *fake.Clock
	random    *seeded
	upstreams *upstreams
	used      *usage
	log       *slog.Logger
}

// harnessConfig configures a harness.
type harnessConfig struct {
	cache     string // the compile cache; "" for none
	limits    host.Limits
	upstreams []Upstream
	log       *slog.Logger
}

// maxCache bounds the folder of compiled modules, in bytes. Each save of an author adds one.
const maxCache = 256 << 20

// openHarness opens the module that was built. Its error for a module that the host
// refuses is that of host.Runtime.Open, with what the module has logged.
func (p *Project) openHarness(ctx context.Context, built Built, c harnessConfig) (*harness, error) {
	code, err := os.ReadFile(built.Wasm)
	if err != nil {
		return nil, err
	}
	h := &harness{project: p, clock: fake.NewClock(), random: new(seeded), used: new(usage)}
	h.log = slog.New(h.used.record(c.log.Handler()))
	h.random.reset()
	if err := compilecache.Prune(c.cache, maxCache, time.Now()); err != nil {
		return nil, fmt.Errorf("pruning the cache: %w", err)
	}
	if h.upstreams, err = startUpstreams(p.Dir, c.upstreams); err != nil {
		return nil, err
	}
	h.runtime, err = host.New(ctx, host.Config{
		CacheDir: c.cache, Log: h.log, Random: h.random,
		Clock:  func() time.Time { return time.UnixMicro(h.clock.Now()) },
		LookUp: h.upstreams.lookUp, CheckDial: h.upstreams.check, Redirect: h.upstreams.redirect,
	})
	if err != nil {
		return nil, errors.Join(err, h.upstreams.close())
	}
	if h.module, err = h.runtime.Open(ctx, code, p.Manifest, host.Capabilities{}, c.limits); err != nil {
		return nil, errors.Join(h.used.explain(err), h.close(ctx))
	}
	return h, nil
}

func (h *harness) close(ctx context.Context) error {
	return errors.Join(h.runtime.Close(ctx), h.upstreams.close())
}

// run runs a case, from the same state every time, and returns what is wrong. around
// may stand between the front and the module.
func (h *harness) run(c Case, around func(httpfront.Caller) httpfront.Caller) []string {
	if err := h.upstreams.use(c.Upstreams); err != nil {
		return []string{err.Error()}
	}
	h.clock.Set(time.UnixMicro(fake.NewClock().Now()))
	h.random.reset()
	backend := fake.New(h.clock.Now)
	h.module.SetCapabilities(h.used.watch(hosttest.Capabilities(backend)))
	s := newSession(backend, h.clock, ownScopes(h.project.Manifest.Routes))
	var caller httpfront.Caller = h.module
	if around != nil {
		caller = around(caller)
	}
	modules, err := beside(backend, h.project.Manifest, caller)
	if err != nil {
		return []string{err.Error()}
	}
	s.api = httpfront.New(httpfront.Config{
		Modules: modules,
		Now:     func() time.Time { return time.UnixMicro(h.clock.Now()) },
		Random:  httpfront.Seed(1),
		Log:     h.log,
	})
	return s.run(c)
}

// ownScopes returns the scopes of routes that are not the contract's.
func ownScopes(routes []abi.Route) (own []string) {
	for _, r := range routes {
		if abi.IsOwnScope(r.Scope) && !slices.Contains(own, r.Scope) {
			own = append(own, r.Scope)
		}
	}
	return own
}

// seeded is randomness that starts from a fixed seed.
type seeded struct {
	mu   sync.Mutex
	fill func([]byte)
}

func (s *seeded) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fill = httpfront.Seed(2)
}

// Read implements io.Reader.
func (s *seeded) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fill(b)
	return len(b), nil
}
