package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"partneredge/host/compilecache"
	"partneredge/host/engine"
	"partneredge/host/memory"
	"partneredge/host/prepare"
)

// Config configures a Runtime. The zero value is usable.
type Config struct {
	// Engine makes the engine that runs modules. Default wazero.New; where the program
	// is built with the tag wasmtime, wasmtime.New.
	Engine engine.New
	// CacheDir is where compiled code is kept, so that a module starts fast the next
	// time. What lies in it is run, so New refuses it with a *compilecache.ExposedError
	// if it, or a file in it, belongs to another user or can be written to by one. A
	// module that is damaged there is compiled anew. "": nothing is kept.
	CacheDir string
	// Log gets a record of each call that failed, and what modules log. Default:
	// nothing is logged.
	Log *slog.Logger
	// Clock tells the time. Deadlines are not measured by it. Default time.Now.
	Clock func() time.Time
	// Memory is the most bytes of linear memory that all sandboxes may have together,
	// whether they have written to it or not. A sandbox that does not fit waits, and a
	// guest's memory.grow fails. Each open module has the memory of one sandbox for
	// itself, as far as half of it goes, and where several are open a module that has a
	// sandbox gets no more than half. Default 2 GiB.
	Memory int
	// Trim is how long a sandbox is kept that no call uses, up to twice as long; one of
	// each module stays. Default 0: for as long as there is memory.
	Trim time.Duration
	// Reset is how sandboxes are restored to their image. Default memory.Auto, the best
	// that the machine has.
	Reset memory.Strategy
	// Random is where requests' randomness comes from; it is read from many goroutines
	// at once. Default crypto/rand.Reader.
	Random io.Reader
	// LookUp finds the addresses of a name that a module's allow_dial has, in lower
	// case, without a dot at its end. Its context ends after a second. Default: Go's own
	// resolver.
	LookUp func(ctx context.Context, name string) ([]netip.Addr, error)
	// CheckDial judges every address that a module is about to connect to, as the
	// system gets it, after names are looked up: a name that is bound anew gains
	// nothing. An error refuses it. Default: all are refused.
	CheckDial func(netip.AddrPort) error
	// Redirect returns the address that is connected to in place of one that a module's
	// allow_dial names and CheckDial lets pass, for tests in which something on
	// loopback stands for a server. Default: the same.
	Redirect func(netip.AddrPort) netip.AddrPort

	compileLimit time.Duration // how long a module may take to compile; by default 2 minutes
}

// Runtime runs modules. It may be used from many goroutines at once.
type Runtime struct {
	config Config
	epoch  time.Time
	engine engine.Engine
	// rewritten are the modules whose code the engine keeps.
	rewritten prepare.Cache

	ceiling ceiling
	yielder yielder

	mu           sync.Mutex
	modules      map[*Module]struct{}
	closedCounts map[ModuleID]Stats // of closed modules, by ids of open ones
	closed       bool

	ended    chan struct{} // closed by Close
	trimming sync.WaitGroup
}

// New starts a runtime, which the caller closes.
func New(ctx context.Context, config Config) (*Runtime, error) {
	var err error
	if config.Reset, err = memory.Choose(config.Reset); err != nil {
		return nil, fmt.Errorf("start module runtime: %w", err)
	}
	config.Log = cmp.Or(config.Log, slog.New(slog.DiscardHandler))
	if config.Clock == nil {
		config.Clock = time.Now
	}
	if config.Random == nil {
		config.Random = rand.Reader
	}
	setDefault(&config.Memory, 2<<30)
	setDefault(&config.compileLimit, 2*time.Minute)
	r := &Runtime{
		config:  config,
		epoch:   time.Now(),
		modules: map[*Module]struct{}{},
		ended:   make(chan struct{}),

		closedCounts: map[ModuleID]Stats{},
	}
	r.ceiling.size, r.ceiling.left = config.Memory, config.Memory
	// GOMAXPROCS may be more than there are processors.
	r.yielder.processors = int64(min(runtime.GOMAXPROCS(0), runtime.NumCPU()))
	newEngine := config.Engine
	if newEngine == nil {
		newEngine = defaultEngine()
	}
	if config.CacheDir != "" {
		if err := ownCache(config.CacheDir); err != nil {
			return nil, fmt.Errorf("start module runtime: %w", err)
		}
		r.rewritten.Dir = filepath.Join(config.CacheDir, "rewritten")
	}
	if r.engine, err = newEngine(ctx, engine.Config{CacheDir: config.CacheDir, Log: config.Log, Funcs: hostFuncs()}); err != nil {
		return nil, fmt.Errorf("start module runtime: %w", err)
	}
	r.engine = engine.Share(engine.Limit(r.engine, config.compileLimit)) // in this order: to wait for another is not to compile
	config.Log.Debug("module runtime started", "engine", r.engine.Name(), "reset", config.Reset.String(), "memory", config.Memory)
	if config.Trim > 0 {
		r.trimming.Go(func() { r.trimEvery(config.Trim) })
	}
	return r, nil
}

// ownCache makes a compile cache, where it is missing, and refuses one that other
// users may write to.
func ownCache(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make compile cache: %w", err)
	}
	return compilecache.Check(dir)
}

// elapsed returns the time since the runtime's start, which goes on evenly.
func (r *Runtime) elapsed() time.Duration { return time.Since(r.epoch) }

// Open prepares, compiles and starts a module: a WASI preview 1 reactor that has the
// exports of package abi. It takes seconds for a module that is not in the cache.
func (r *Runtime) Open(ctx context.Context, wasm []byte, manifest Manifest, caps Capabilities, limits Limits) (*Module, error) {
	sum := sha256.Sum256(wasm)
	m := &Module{runtime: r, manifest: manifest, limits: limits.withDefaults(), sum: sum, digest: hex.EncodeToString(sum[:]),
		routes: caps.Routes.Append(nil)}
	m.SetCapabilities(caps)
	m.pool.module = m
	if err := m.open(ctx, wasm); err != nil {
		return nil, fmt.Errorf("open module %s: %w", manifest.Name, err)
	}
	m.pool.open()
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.modules[m] = struct{}{}
	}
	r.mu.Unlock()
	if closed {
		m.close(ctx)
		return nil, fmt.Errorf("open module %s: %w", manifest.Name, errors.New("runtime closed"))
	}
	return m, nil
}

// opened returns the modules that are open.
func (r *Runtime) opened() []*Module {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.modules))
}

// trimEvery frees unused sandboxes at each interval, until Close.
func (r *Runtime) trimEvery(interval time.Duration) {
	ticker := time.Tick(interval)
	for {
		select {
		case <-r.ended:
			return
		case <-ticker:
			for _, m := range r.opened() {
				m.pool.trim()
			}
		}
	}
}

// shrink frees an idle sandbox of a pool other than p, if all that can give way together make
// room for one of p. It reports whether it did.
func (r *Runtime) shrink(p *pool) bool {
	others := slices.DeleteFunc(r.opened(), func(m *Module) bool { return &m.pool == p })
	room := r.ceiling.free()
	for _, m := range others {
		room += m.pool.spareBytes()
	}
	if room < p.module.image.size() {
		return false
	}
	return slices.ContainsFunc(others, func(m *Module) bool { return m.pool.shrink() })
}

// Settle gives memory back to the system that opening modules took and running them does
// not need. It may take seconds, since machine code is written to the cache that is not
// there yet; when ctx ends, no more is written than the file under way. Modules may be
// opened, called and closed meanwhile.
func (r *Runtime) Settle(ctx context.Context) {
	r.engine.Settle(ctx)
	if ctx.Err() == nil {
		debug.FreeOSMemory()
	}
}

// Close closes every module, then the engine. It may be called twice.
func (r *Runtime) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	modules := r.modules
	r.modules = nil
	r.mu.Unlock()
	close(r.ended)
	r.trimming.Wait()
	for m := range modules {
		m.close(ctx)
	}
	return r.engine.Close(ctx)
}
