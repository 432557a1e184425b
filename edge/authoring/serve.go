package authoring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"partneredge/edge/admission"
	"partneredge/edge/hint"
	"partneredge/host"
	"partneredge/host/compilecache"
	"partneredge/host/hosttest"
	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/route"
)

// ServeConfig says how a module is served.
type ServeConfig struct {
	Config
	// Listen is the address of the API, host:port; port 0 picks one.
	Listen string
	// FakeUpstreams makes the upstreams of cases.json stand for the servers that the
	// module asks. Without it, it asks the real ones.
	FakeUpstreams bool
	// Loaded is called once the module answers, the first time and after each change.
	Loaded func(Loaded)
	// Failed is called with the error of a change that could not be loaded. What was
	// loaded before goes on answering.
	Failed func(error)
}

// Loaded says that a module answers.
type Loaded struct {
	Event  string `json:"event"` // ready, then reloaded
	Name   string `json:"name"`
	URL    string `json:"url"`
	Try    string `json:"try"`      // the path of a request
	Live   string `json:"live_key"` // a key of the demo account with every scope
	Test   string `json:"test_key"`
	TookMS int64  `json:"took_ms"` // to build and open the module

	Warnings string `json:"warnings,omitempty"` // of the compiler
}

// Serve builds a module and serves it beside the gate and the contract's endpoints,
// with a demo account in memory, until ctx ends. A change of its files is built and
// loaded at once; each load starts with new data. The error is that of the first
// build, or of the address.
func Serve(ctx context.Context, dir string, c ServeConfig) (err error) {
	if c.CheckDial == nil && !c.FakeUpstreams {
		return errors.New("serving the module: nothing judges where it may connect to")
	}
	p, err := Open(dir)
	if err != nil {
		return err
	}
	if dir, err = resolved(dir); err == nil {
		c.Out, err = p.outDir(c.Out)
	}
	if err == nil {
		c.Out, err = resolved(c.Out)
	}
	if err != nil {
		return fmt.Errorf("serving the module: %w", err)
	}
	s := &server{dir: dir, ServeConfig: c}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return hint.Add(fmt.Errorf("serving the module: %w", err), "is it running already? --listen 127.0.0.1:0 takes a free port")
	}
	s.url = "http://" + listener.Addr().String()
	defer func() { err = errors.Join(err, s.unload(context.WithoutCancel(ctx), s.current.Load())) }()
	built := snapshot(dir, c.Out)
	if err := s.load(ctx, "ready"); err != nil {
		return errors.Join(err, listener.Close())
	}
	front := httpfront.NewLocalServer(httpfront.WithRequestID(time.Now, nil, s))
	ended := make(chan error, 1)
	go func() { ended <- front.Serve(listener) }()
	watch(ctx, dir, c.Out, built, func() {
		if err := s.load(ctx, "reloaded"); err != nil && ctx.Err() == nil {
			c.Failed(err)
		}
	})
	closed := front.Close()
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the module: %w", err)
	}
	return closed
}

// resolved returns a path without links and relative parts, so that a folder can be told
// from what lies in it.
func resolved(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// server serves what is loaded.
type server struct {
	ServeConfig
	dir, url string
	current  atomic.Pointer[loaded]
}

// loaded is a module that answers.
type loaded struct {
	http.Handler
	runtime   *host.Runtime
	upstreams *upstreams
}

// ServeHTTP implements http.Handler. A request under way when the module changes is
// answered by the one before: closing that waits for it.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.current.Load().ServeHTTP(w, r)
}

// load builds the module and puts it in the place of what is loaded.
func (s *server) load(ctx context.Context, event string) error {
	start := time.Now()
	p, err := Open(s.dir)
	if err != nil {
		return err
	}
	built, err := p.Build(ctx, s.Out)
	if err != nil {
		return err
	}
	next, told, err := s.open(ctx, p, built)
	if err != nil {
		return err
	}
	before := s.current.Swap(next)
	told.Event, told.TookMS, told.Warnings = event, time.Since(start).Milliseconds(), built.Warnings
	s.Loaded(told)
	return s.unload(context.WithoutCancel(ctx), before)
}

// open opens a built module beside everything else.
func (s *server) open(ctx context.Context, p *Project, built Built) (_ *loaded, told Loaded, err error) {
	code, err := os.ReadFile(built.Wasm)
	if err != nil {
		return nil, told, err
	}
	next := &loaded{upstreams: new(upstreams)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unload(ctx, next))
		}
	}()
	config := host.Config{CacheDir: s.Cache, Log: s.Log, CheckDial: s.CheckDial}
	if s.FakeUpstreams {
		cases, err := p.readCases()
		if err != nil {
			return nil, told, err
		}
		started, err := startUpstreams(p.Dir, cases.Upstreams)
		if err != nil {
			return nil, told, err
		}
		next.upstreams = started
		config.LookUp, config.CheckDial, config.Redirect = next.upstreams.lookUp, next.upstreams.check, next.upstreams.redirect
	}
	if err := compilecache.Prune(s.Cache, maxCache, time.Now()); err != nil {
		return nil, told, fmt.Errorf("pruning the cache: %w", err)
	}
	if next.runtime, err = host.New(ctx, config); err != nil {
		return nil, told, err
	}
	clock := new(fake.Clock)
	backend, demo := fake.NewDemo(clock.Now)
	module, err := next.runtime.Open(ctx, code, p.Manifest, hosttest.Capabilities(backend), host.Limits{Response: admission.MaxAnswer})
	if err != nil {
		return nil, told, hint.Add(err, "edge module check says more about what the host refuses")
	}
	bits, own := abi.SplitScopes(append(abi.ScopeNames[:], ownScopes(p.Manifest.Routes)...))
	told = Loaded{Name: p.Manifest.Name, URL: s.url, Try: example(p.Manifest)}
	for _, key := range []struct {
		environment abi.Environment
		into        *string
	}{{abi.EnvLive, &told.Live}, {abi.EnvTest, &told.Test}} {
		*key.into, _ = backend.AddKey(abi.Key{AccountID: demo.AccountID, Environment: key.environment, Scopes: bits, Own: own})
	}
	modules, err := beside(backend, p.Manifest, module)
	if err != nil {
		return nil, told, err
	}
	next.Handler = httpfront.New(httpfront.Config{Modules: modules, Log: s.Log})
	return next, told, nil
}

// unload frees what was loaded; nil is nothing.
func (s *server) unload(ctx context.Context, l *loaded) error {
	if l == nil {
		return nil
	}
	var err error
	if l.runtime != nil {
		err = l.runtime.Close(ctx)
	}
	return errors.Join(err, l.upstreams.close())
}

// example returns the path of a request to the module: the first of its warm-up, which
// has values in the place of parameters.
func example(m host.Manifest) string {
	for _, w := range m.Warmup {
		if w.Method == http.MethodGet {
			if w.Query != "" {
				return w.Path + "?" + w.Query
			}
			return w.Path
		}
	}
	if len(m.Routes) > 0 {
		return m.Routes[0].Path
	}
	return route.Prefix
}
