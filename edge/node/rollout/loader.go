package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/wasm/httpfront"
)

// loader opens the modules of releases.
type loader struct {
	cfg  Config
	lock compileLock
}

func newLoader(cfg Config) *loader {
	return &loader{cfg: cfg, lock: compileLock{filepath.Join(cfg.Cache, "compiled")}}
}

// readFolder reads NAME.wasm and its manifest NAME.json, for each NAME in dir.
func readFolder(dir string) ([]release.Module, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil {
		return nil, fmt.Errorf("find modules: %w", err)
	}
	modules := make([]release.Module, 0, len(files))
	for _, file := range files {
		m := release.Module{Name: strings.TrimSuffix(filepath.Base(file), ".wasm")}
		if m.Wasm, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("read module %s: %w", m.Name, err)
		}
		if m.Manifest, err = os.ReadFile(strings.TrimSuffix(file, ".wasm") + ".json"); err != nil {
			return nil, fmt.Errorf("read module %s: %w", m.Name, err)
		}
		modules = append(modules, m)
	}
	return modules, nil
}

// openFolder opens the modules of the node's own disk. progress may be nil.
func (l *loader) openFolder(ctx context.Context, progress func(module string, nth, total int)) (*deployment, error) {
	read, err := readFolder(l.cfg.Modules)
	if err != nil {
		return nil, err
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
			module, err := l.openModule(within, m)
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
	if opened.front.Gate.Caller == nil {
		return nil, fmt.Errorf("find modules: none is named %s", Gate)
	}
	if len(opened.front.Handlers) == 0 {
		return nil, errors.New("find modules: no handler")
	}
	return opened, nil
}

func (l *loader) openModule(ctx context.Context, m release.Module) (*host.Module, error) {
	manifest, err := readManifest(m.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", m.Name, err)
	}
	if manifest.Name != m.Name {
		return nil, fmt.Errorf("read module %s: its manifest names %q", m.Name, manifest.Name)
	}
	unlock, err := l.lock.lock(ctx, m.Digest())
	if err != nil {
		return nil, fmt.Errorf("open module %s: %w", m.Name, err)
	}
	module, err := l.cfg.Runtime.Open(ctx, m.Wasm, manifest, l.cfg.Capabilities, host.Limits{
		Wall:     l.cfg.CallTimeout,
		Response: wire.MaxPayload, // a module can answer whatever the origin can send it
	})
	unlock(err == nil)
	return module, err
}

func readManifest(text []byte) (m host.Manifest, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // a grant that is misspelt is no grant
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("manifest: %w", err)
	}
	if m.Name == "" {
		return m, errors.New("its manifest has no name")
	}
	return m, nil
}
