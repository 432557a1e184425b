package rollout

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/admission"
	"partneredge/edge/release"
	"partneredge/host"
	"partneredge/host/compilecache"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/route"
)

// loader opens the modules of releases.
type loader struct {
	cfg Config
}

// openFolder opens the modules of the node's own disk. progress may be nil.
func (l *loader) openFolder(ctx context.Context, progress func(module string, nth, total int)) (*deployment, error) {
	read, err := release.ReadFolder(l.cfg.Modules)
	if err != nil {
		return nil, fmt.Errorf("read modules: %w", err)
	}
	modules, err := l.open(ctx, read, progress)
	if err != nil {
		return nil, fmt.Errorf("open the modules in %s: %w", l.cfg.Modules, err)
	}
	return l.deploy("", "", modules), nil
}

// openRelease opens a verified release and smoke-tests it. It calls opened between
// the two.
func (l *loader) openRelease(ctx context.Context, r *release.Release, opened func()) (*deployment, error) {
	modules, err := l.open(ctx, r.Modules, nil)
	if err != nil {
		return nil, err
	}
	opened()
	return l.smokeTested(ctx, l.deploy(r.Digest, r.Version, modules))
}

// smokeTested returns d after a smoke test, during which its modules have only
// made-up capabilities.
func (l *loader) smokeTested(ctx context.Context, d *deployment) (*deployment, error) {
	d.modules.setCapabilities(smokeCapabilities())
	err := smokeTest(ctx, httpfront.Config{Modules: d.modules.front, Now: l.cfg.Front.Now, Log: l.cfg.Log})
	if err != nil {
		d.leave()
		return nil, err
	}
	d.modules.setCapabilities(l.cfg.Capabilities)
	return d, nil
}

func (l *loader) deploy(digest, version string, m *modules) *deployment {
	return newDeployment(digest, version, m, l.cfg.Front)
}

// open opens modules, several at a time. progress may be nil.
func (l *loader) open(ctx context.Context, read []release.Module, progress func(module string, nth, total int)) (_ *modules, err error) {
	opened := newModules()
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	admitted, err := admission.JudgeManifests(read)
	if err != nil {
		return nil, err
	}
	opened.docs = admitted.Docs
	if opened.routes, err = route.New(admitted.Routes); err != nil {
		return nil, err
	}
	var (
		group, within = errgroup.WithContext(ctx)
		mu            sync.Mutex // guards what follows, and progress
		begun         int
	)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, m := range read {
		group.Go(func() error {
			mu.Lock()
			begun++
			if progress != nil {
				progress(m.Name, begun, len(read))
			}
			mu.Unlock()
			module, err := l.openModule(within, m, admitted)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			opened.add(module)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	l.pruneCache()
	return opened, nil
}

// pruneCache removes what no release of late had use for. A module that runs keeps what it
// has mapped of a file that is gone.
func (l *loader) pruneCache() {
	if err := compilecache.Prune(l.cfg.Cache, cmp.Or(l.cfg.MaxCache, 1<<30), time.Now()); err != nil {
		l.cfg.Log.Warn("compiled modules stay in the cache", "err", err)
	}
}

func (l *loader) openModule(ctx context.Context, m release.Module, admitted admission.Admitted) (*host.Module, error) {
	unlock, err := l.lockCompile(ctx, m.Digest())
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("open module %s: %w", m.Name, err)
	case err != nil: // without the lock it is compiled once more at worst
		l.cfg.Log.Warn("module is compiled without the lock of the compile cache", "module", m.Name, "err", err)
		unlock = func(bool) {}
	}
	caps := l.cfg.Capabilities
	caps.Routes = admitted.Routes
	module, err := l.cfg.Runtime.Open(ctx, m.Wasm, admitted.Manifests[m.Name], caps, host.Limits{
		CPU:      l.cfg.CallCPU,
		Wall:     l.cfg.CallTimeout,
		Response: admission.MaxAnswer,
	})
	unlock(err == nil)
	return module, err
}
