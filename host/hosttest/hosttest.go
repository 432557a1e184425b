// Package hosttest runs modules in a test as a node would, with everything they
// may ask for in memory:
//
//	backend, demo := fake.NewDemo(clock.Now)
//	api := hosttest.Handler(t, "build/modules", backend, clock.Now)
//	req.Header.Set("Authorization", "Bearer "+demo.Live); api.ServeHTTP(w, req)
//
// The clock is the caller's and the randomness that requests bring starts from a
// fixed seed, so the same requests get the same answers, byte for byte.
package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/host"
	"partneredge/host/engine"
	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/route"
)

// Config says how modules are run. The zero value is of use.
type Config struct {
	// Engine that runs them. Default: host's own.
	Engine engine.New
	// Limits of each. Default: host's own, but that a call may compute for 10 s,
	// for a machine that runs tests has other work.
	Limits host.Limits
	// Log gets what goes wrong inside. Default: nothing is logged.
	Log *slog.Logger
}

// API is an http.Handler that answers by modules. It is to be closed.
type API struct {
	http.Handler
	runtime *host.Runtime
}

// Handler opens every module in dir, NAME.wasm with its manifest NAME.json, and
// joins them to one handler over the backend. now is the clock, in microseconds
// since the Unix epoch. What goes wrong inside is in the test's log. Modules are
// closed when the test ends, and connect to nothing. Compiled code is kept beside the
// modules, in dir/.cache.
func Handler(t testing.TB, dir string, backend *fake.Backend, now func() int64) *API {
	t.Helper()
	return Config{}.Handler(t, dir, backend, now)
}

// Handler is as the function of that name.
func (c Config) Handler(t testing.TB, dir string, backend *fake.Backend, now func() int64) *API {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	api, err := c.Open(t.Context(), dir, backend, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return api
}

// Open is Handler outside a test: the caller closes what it returns.
func (c Config) Open(ctx context.Context, dir string, backend *fake.Backend, now func() int64) (*API, error) {
	if c.Limits.CPU == 0 {
		c.Limits.CPU = 10 * time.Second
	}
	clock := func() time.Time { return time.UnixMicro(now()) }
	runtime, err := host.New(ctx, host.Config{Engine: c.Engine, CacheDir: filepath.Join(dir, ".cache"), Log: c.Log, Clock: clock})
	if err != nil {
		return nil, err
	}
	set, err := c.openAll(ctx, runtime, dir, backend)
	if err != nil {
		return nil, errors.Join(err, runtime.Close(ctx))
	}
	return &API{runtime: runtime, Handler: httpfront.New(httpfront.Config{
		Modules: set,
		Now:     clock,
		Random:  httpfront.Seed(1),
		Log:     c.Log,
	})}, nil
}

// Close closes the modules. It may be called twice.
func (a *API) Close(ctx context.Context) error { return a.runtime.Close(ctx) }

func (c Config) openAll(ctx context.Context, runtime *host.Runtime, dir string, backend *fake.Backend) (*httpfront.Modules, error) {
	manifests, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	read := make([]host.Manifest, len(manifests))
	declared := make([]route.Module, len(manifests))
	for i, path := range manifests {
		if read[i], err = readManifest(path); err != nil {
			return nil, err
		}
		declared[i] = route.Module{Name: read[i].Name, Routes: read[i].Routes, Capabilities: read[i].Capabilities}
	}
	caps := Capabilities(backend)
	if caps.Routes, err = route.Of(declared); err != nil {
		return nil, fmt.Errorf("open modules of %s: %w", dir, err)
	}
	set := &httpfront.Modules{Handlers: map[string]httpfront.Module{}}
	for i, path := range manifests {
		module, err := c.open(ctx, runtime, path, read[i], caps)
		if err != nil {
			return nil, err
		}
		served := httpfront.Module{Caller: module, Headers: module.Manifest().Headers}
		if name := module.Manifest().Name; name == route.Gate {
			set.Gate = served
		} else {
			set.Handlers[name] = served
		}
	}
	if set.Gate.Caller == nil {
		return nil, fmt.Errorf("open modules: none named %s in %s", route.Gate, dir)
	}
	return set, nil
}

func readManifest(path string) (manifest host.Manifest, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return manifest, err
	}
	if err := json.Unmarshal(b, &manifest); err != nil {
		return manifest, fmt.Errorf("read manifest %s: %w", path, err)
	}
	return manifest, nil
}

func (c Config) open(ctx context.Context, runtime *host.Runtime, path string, manifest host.Manifest, caps host.Capabilities) (*host.Module, error) {
	wasm, err := os.ReadFile(strings.TrimSuffix(path, ".json") + ".wasm")
	if err != nil {
		return nil, err
	}
	return runtime.Open(ctx, wasm, manifest, caps, c.Limits)
}
