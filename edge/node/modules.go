package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/wasm/httpfront"
)

// gateName is the module that every request passes first.
const gateName = "gate"

// workshop makes modules ready to answer.
type workshop struct {
	config  Config
	runtime *host.Runtime
	caps    host.Capabilities
	observe observer
	turns   turns
}

// readFolder reads NAME.wasm with its manifest NAME.json, for each in dir.
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

// openFolder opens the modules of the node's own disk.
func (w *workshop) openFolder(ctx context.Context, progress func(module string, nth, total int)) (*lineup, error) {
	modules, err := readFolder(w.config.Modules)
	if err != nil {
		return nil, err
	}
	crew, err := w.open(ctx, modules, progress)
	if err != nil {
		return nil, fmt.Errorf("open the modules in %s: %w", w.config.Modules, err)
	}
	return w.lineUp("", "", crew), nil
}

// openRelease opens a release that was verified, and has it pass its smoke test.
// prepared is called between the two.
func (w *workshop) openRelease(ctx context.Context, r *release.Release, prepared func()) (*lineup, error) {
	crew, err := w.open(ctx, r.Modules, nil)
	if err != nil {
		return nil, err
	}
	prepared()
	return w.smoked(ctx, w.lineUp(r.Digest, r.Version, crew))
}

// smoked is a lineup that has passed its smoke test.
func (w *workshop) smoked(ctx context.Context, l *lineup) (*lineup, error) {
	if err := l.smoke(ctx, w.config); err != nil {
		l.leave()
		return nil, err
	}
	return l, nil
}

func (w *workshop) lineUp(digest, version string, c *crew) *lineup {
	l := newLineup(digest, version, c)
	l.serves(w.config, w.observe)
	return l
}

// open makes modules ready, several at a time. progress may be nil.
func (w *workshop) open(ctx context.Context, modules []release.Module, progress func(module string, nth, total int)) (_ *crew, err error) {
	c := newCrew()
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	var (
		group, within = errgroup.WithContext(ctx)
		mu            sync.Mutex // guards what follows, and progress
		begun         int
	)
	caps := c.smoking.beside(w.caps)
	group.SetLimit(goruntime.GOMAXPROCS(0))
	for _, m := range modules {
		group.Go(func() error {
			mu.Lock()
			begun++
			if progress != nil {
				progress(m.Name, begun, len(modules))
			}
			mu.Unlock()
			module, err := w.openModule(within, m, caps)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			c.modules = append(c.modules, module)
			served := httpfront.Module{Caller: module, Headers: module.Manifest().Headers}
			if m.Name == gateName {
				c.set.Gate = served
			} else {
				c.set.Handlers[m.Name] = served
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if c.set.Gate.Caller == nil {
		return nil, fmt.Errorf("find modules: none is named %s", gateName)
	}
	if len(c.set.Handlers) == 0 {
		return nil, errors.New("find modules: no handler")
	}
	return c, nil
}

func (w *workshop) openModule(ctx context.Context, m release.Module, caps host.Capabilities) (*host.Module, error) {
	manifest, err := readManifest(m.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", m.Name, err)
	}
	if manifest.Name != m.Name {
		return nil, fmt.Errorf("read module %s: its manifest names %q", m.Name, manifest.Name)
	}
	done, err := w.turns.take(ctx, m.Digest())
	if err != nil {
		return nil, fmt.Errorf("open module %s: %w", m.Name, err)
	}
	module, err := w.runtime.Open(ctx, m.Wasm, manifest, caps, host.Limits{
		Wall:     w.config.RequestTimeout,
		Response: wire.MaxPayload, // a module can answer whatever the origin can tell it
	})
	done(err == nil)
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
