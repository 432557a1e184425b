package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"partneredge/host/memory"
	"partneredge/host/prepare"
	"partneredge/host/wasi"
)

// image is the state that every request of a module starts from: all that a guest
// can have, as it was after the warm-up.
type image struct {
	memory    *memory.Image
	globals   []uint64 // as in prepare.Module.Globals
	state     uint64   // changes of state elsewhere: 0 in most modules
	inputAt   uint32
	inputRoom uint32
}

func (i *image) size() int { return len(i.memory.Bytes()) }

// open prepares, compiles and starts a module, and makes its image.
func (m *Module) open(ctx context.Context, wasm []byte) error {
	r := m.runtime
	var err error
	m.dialer, err = wasi.NewDialer(wasi.DialConfig{
		Allow: m.manifest.AllowDial, LookUp: r.config.LookUp, Check: r.config.CheckDial, Redirect: r.config.Redirect,
		Sockets: m.limits.Sockets, Bytes: m.limits.SocketBytes,
		Log: r.config.Log.With("module", m.manifest.Name, "digest", m.digest),
	})
	if err != nil {
		return err
	}
	if err = m.compile(ctx, wasm); err != nil {
		return err
	}
	if m.warmUp, err = newWarmUp(r.config.Clock()); err == nil {
		err = m.makeImage(ctx)
	}
	if err != nil {
		_ = m.code.Close(ctx)
		return err
	}
	if m.image.state == 0 { // no sandbox is made by repeating the warm-up: see clone
		m.prepared.Data = nil // and with it the module's bytes, and Go's tens of thousands of segments
	}
	return nil
}

// compile rewrites and compiles a module, or loads what came of that before.
func (m *Module) compile(ctx context.Context, wasm []byte) error {
	r := m.runtime
	traits := r.engine.Traits()
	options := prepare.Options{WithoutFuel: m.limits.CPU < 0 || traits.Interrupts, ImportGrow: traits.ImportsGrow}
	kept, err := r.rewritten.Load(wasm, m.sum, options)
	if err == nil {
		if err := m.accept(kept); err != nil {
			return err
		}
		if m.code = r.engine.Load(ctx, kept.Sum); m.code != nil {
			m.prepared = kept
			return nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		r.config.Log.Warn("rewritten module in the cache is damaged, rewriting it anew", "module", m.manifest.Name, "digest", m.digest, "err", err)
	}
	if m.prepared, err = prepare.Rewrite(wasm, options); err != nil {
		return err
	}
	if err := m.accept(m.prepared); err != nil {
		return err
	}
	if m.code, err = r.engine.Compile(ctx, m.prepared.Wasm); err != nil {
		return err
	}
	if err := r.rewritten.Keep(m.prepared, m.sum, options); err != nil {
		r.config.Log.Warn("rewritten module not kept", "module", m.manifest.Name, "digest", m.digest, "err", err)
	}
	m.prepared.Wasm = nil
	return nil
}

// maxMemory returns the memory limit in whole pages, in bytes.
func (m *Module) maxMemory() int { return m.limits.Memory &^ (prepare.PageSize - 1) }

// accept checks that the module has memory, within its limit, and imports only what
// the host offers.
func (m *Module) accept(p *prepare.Module) error {
	offered := map[[2]string]bool{}
	for _, f := range hostFuncs() {
		offered[[2]string{f.Module, f.Name}] = true
	}
	for _, im := range p.Imports {
		if im.Kind != prepare.KindFunction || !offered[[2]string{im.Module, im.Name}] {
			return fmt.Errorf("it imports the %s %s.%s, which is not offered", im.Kind, im.Module, im.Name)
		}
	}
	if p.MaxPages == 0 {
		return errors.New("it has no memory")
	}
	if size := int(p.Pages) * prepare.PageSize; size > m.maxMemory() {
		return fmt.Errorf("it starts with %d bytes of memory, more than its limit of %d", size, m.maxMemory())
	}
	return nil
}

// makeImage starts an instance, warms it up, and keeps its state.
func (m *Module) makeImage(ctx context.Context) error {
	s, err := m.startWarm(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	i := &image{state: s.state.Get(), inputAt: s.inputAt, inputRoom: s.inputRoom}
	if most := m.limits.CPU; i.state != 0 && most >= 0 && s.warmedUp > most {
		return fmt.Errorf("its warm-up is repeated for each sandbox and computes for %v, longer than the %v that a call may", s.warmedUp, most)
	}
	for _, g := range s.globals {
		i.globals = append(i.globals, g.Get())
	}
	i.memory, err = memory.NewImage(s.instance.Memory())
	m.image = i
	return err
}

// startWarm makes a sandbox the long way: data, start function, _initialize,
// warm-up.
func (m *Module) startWarm(ctx context.Context) (*sandbox, error) {
	mem, err := memory.New(m.maxMemory(), m.runtime.config.Reset)
	if err != nil {
		return nil, err
	}
	s := &sandbox{call: newCall(m, mem)}
	if err := s.start(ctx); err != nil {
		mem.Free()
		return nil, err
	}
	if err := s.runWarmUp(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("warm up: %w", err)
	}
	return s, nil
}

// clone makes a sandbox that is the image.
func (m *Module) clone(ctx context.Context) (*sandbox, error) {
	newSandbox := m.mapImage
	if m.image.state != 0 {
		newSandbox = m.repeatWarmUp
	}
	s, err := newSandbox(ctx)
	if err != nil {
		return nil, err
	}
	s.reserves = true
	m.counts.created.Add(1)
	return s, nil
}

// mapImage makes a sandbox from the image.
func (m *Module) mapImage(ctx context.Context) (*sandbox, error) {
	mem, err := m.image.memory.Map(m.maxMemory(), m.runtime.config.Reset)
	if err != nil {
		return nil, err
	}
	s := &sandbox{call: newCall(m, mem), inputAt: m.image.inputAt, inputRoom: m.image.inputRoom}
	if err := s.start(ctx); err != nil {
		mem.Free()
		return nil, err
	}
	if !s.instance.Grow(m.image.size()) {
		s.close()
		return nil, errors.New("memory does not grow to the image's size")
	}
	for i, g := range s.globals {
		g.Set(m.image.globals[i])
	}
	return s, nil
}

// repeatWarmUp makes a sandbox of a module some of whose state is neither in memory
// nor in numeric globals, such as tables that it filled itself: by doing again what
// made the image. The warm-up answers as it did then, so the same comes out. It computes
// for no longer than a call may: makeImage has seen to that.
func (m *Module) repeatWarmUp(ctx context.Context) (*sandbox, error) {
	s, err := m.startWarm(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.same(); err != nil {
		err = fmt.Errorf("repeat the warm-up: it did not come out the same: %w", err)
	} else {
		err = s.call.memory.Attach(m.image.memory)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}
