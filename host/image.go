package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"partneredge/host/engine"
	"partneredge/host/memory"
	"partneredge/host/prepare"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// image is what every request of a module starts from: the whole state that a
// guest can have, as it was after the warm-up.
type image struct {
	memory    *memory.Image
	globals   []uint64 // as in prepare.Module.Globals
	state     uint64   // changes of state elsewhere: 0 in most modules
	inputAt   uint32
	inputRoom uint32
	warm      warm // what the warm-up saw
}

func (i *image) size() int {
	if i == nil || i.memory == nil {
		return 0
	}
	return len(i.memory.Bytes())
}

func (i *image) close() {
	if i != nil && i.memory != nil {
		i.memory.Close()
	}
}

// warmLimit bounds the start and the warm-up of a module, each of their steps.
const warmLimit = 10 * time.Second

// open prepares, compiles and starts a module, and takes its image.
func (m *Module) open(ctx context.Context, wasm []byte) error {
	r := m.runtime
	var err error
	m.dialer, err = wasi.NewDialer(wasi.DialConfig{
		Allow: m.manifest.AllowDial, LookUp: r.lookUp, Check: r.checkDial,
		Sockets: m.limits.Sockets, Bytes: m.limits.SocketBytes,
		Log: r.log.With("module", m.manifest.Name, "digest", m.digest),
	})
	if err != nil {
		return err
	}
	traits := m.runtime.engine.Traits()
	prepared, err := prepare.Rewrite(wasm, prepare.Options{
		WithoutFuel: m.limits.CPU < 0 || traits.Interrupts, ImportGrow: traits.ImportsGrow})
	if err != nil {
		return err
	}
	if err := linked(prepared); err != nil {
		return err
	}
	if prepared.MaxPages == 0 {
		return errors.New("it has no memory")
	}
	if int(prepared.Pages)*prepare.PageSize > m.maxMemory() {
		return fmt.Errorf("it starts with %d bytes of memory, more than its limit of %d",
			int(prepared.Pages)*prepare.PageSize, m.maxMemory())
	}
	if m.code, err = m.runtime.engine.Compile(ctx, prepared.Wasm); err != nil {
		return err
	}
	prepared.Wasm = nil
	m.prepared = prepared
	if err := m.takeImage(ctx); err != nil {
		m.image.close()
		_ = m.code.Close(ctx)
		return err
	}
	if m.image.state == 0 { // nothing is made by repeating: see clone
		prepared.Data = nil // and with it the module's bytes, and Go's tens of thousands of segments
	}
	return nil
}

// maxMemory is the memory limit in whole pages, in bytes.
func (m *Module) maxMemory() int { return m.limits.Memory &^ (prepare.PageSize - 1) }

// linked checks that the host offers what a module imports.
func linked(p *prepare.Module) error {
	offered := map[[2]string]bool{}
	for _, f := range imports() {
		offered[[2]string{f.Module, f.Name}] = true
	}
	for _, im := range p.Imports {
		if im.Kind != prepare.KindFunction || !offered[[2]string{im.Module, im.Name}] {
			return fmt.Errorf("it imports the %s %s.%s, which is not offered", im.Kind, im.Module, im.Name)
		}
	}
	return nil
}

// takeImage starts an instance, warms it up and keeps what it then is.
func (m *Module) takeImage(ctx context.Context) error {
	i := &image{warm: warm{wallNow: m.runtime.clock()}}
	if _, err := rand.Read(i.warm.seed[:]); err != nil {
		return fmt.Errorf("read randomness: %w", err)
	}
	m.image = i
	s, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	for _, g := range s.globals {
		i.globals = append(i.globals, g.Get())
	}
	i.state, i.inputAt, i.inputRoom = s.state.Get(), s.inputAt, s.inputRoom
	i.memory, err = memory.NewImage(s.instance.Memory())
	return err
}

// begin makes a sandbox the long way: data, start function, _initialize,
// warm-up.
func (m *Module) begin(ctx context.Context) (*sandbox, error) {
	mem, err := memory.New(m.maxMemory(), m.runtime.reset)
	if err != nil {
		return nil, err
	}
	s := &sandbox{call: newCall(m, mem)}
	if err := s.start(ctx); err != nil {
		mem.Free()
		return nil, err
	}
	if err := s.warmUp(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("warm up: %w", err)
	}
	return s, nil
}

// warmUp runs all that comes before an image. It is the same every time.
func (s *sandbox) warmUp(ctx context.Context) error {
	c, m := s.call, s.call.m
	c.warm = newWarm(m.image.warm.seed, m.image.warm.wallNow)
	defer func() { c.warm = nil }()
	bytes := s.instance.Memory()
	for _, d := range m.prepared.Data {
		copy(bytes[d.Offset:], d.Bytes)
	}
	for _, name := range []string{prepare.ExportStart, "_initialize"} {
		if f := s.instance.Function(name, nil, nil); f != nil {
			c.begin(ctx, abi.Principal{}, 0)
			err := f.Call(c, s.stack[:])
			c.end()
			if err != nil {
				return c.fail(err)
			}
		}
	}
	if err := s.findInput(ctx); err != nil {
		return err
	}
	for _, w := range m.warmup() {
		var resp abi.Response
		if err := s.serve(ctx, w, &resp); err != nil {
			return err
		}
	}
	return nil
}

// findInput asks where the guest's input buffer is.
func (s *sandbox) findInput(ctx context.Context) error {
	s.call.begin(ctx, abi.Principal{}, 0)
	defer s.call.end()
	input := s.instance.Function(abi.ExportInput, nil, []engine.ValueType{engine.I64})
	if input == nil {
		return errors.New("it does not export " + abi.ExportInput)
	}
	if err := input.Call(s.call, s.stack[:]); err != nil {
		return s.call.fail(err)
	}
	s.inputAt, s.inputRoom = uint32(s.stack[0]>>32), uint32(s.stack[0])
	if uint64(s.inputAt)+uint64(s.inputRoom) > uint64(len(s.instance.Memory())) {
		return errors.New("its input buffer is outside its memory")
	}
	if s.inputRoom < abi.InputSize {
		return fmt.Errorf("its input buffer holds %d bytes, fewer than %d", s.inputRoom, abi.InputSize)
	}
	return nil
}

// warmup are the requests of the warm-up. They are answered twice: what is
// made on the first request may still settle on the next.
func (m *Module) warmup() []*abi.Request {
	list := m.manifest.Warmup
	if len(list) == 0 {
		list = []Warmup{{Method: "GET", Path: "/"}}
	}
	var requests []*abi.Request
	for range 2 {
		for _, w := range list {
			req := &abi.Request{Now: m.image.warm.wallNow.UnixMicro(), Random: m.image.warm.seed,
				Method: w.Method, Path: w.Path, Query: w.Query, Param: w.Param, Client: "192.0.2.1", Body: []byte(w.Body),
				Principal: abi.Principal{KeyID: "key_warm", AccountID: "acc_warm", Environment: abi.EnvTest,
					Scopes: abi.AllScopes}}
			for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
				req.Headers = append(req.Headers, abi.Header{Name: name, Value: w.Headers[name]})
			}
			requests = append(requests, req)
		}
	}
	return requests
}

// clone makes a sandbox that is the image.
func (m *Module) clone(ctx context.Context) (*sandbox, error) {
	if m.image.state != 0 {
		return m.repeat(ctx)
	}
	mem, err := m.image.memory.Map(m.maxMemory(), m.runtime.reset)
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
		return nil, errors.New("memory does not take the image's size")
	}
	for i, g := range s.globals {
		g.Set(m.image.globals[i])
	}
	s.counted = true
	m.counts.created.Add(1)
	return s, nil
}

// repeat makes a sandbox of a module some of whose state is neither in memory
// nor in numeric globals, such as tables that it filled itself: by doing again
// what made the image. Its world is the same as then, so it comes out the same.
func (m *Module) repeat(ctx context.Context) (*sandbox, error) {
	s, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.same(); err != nil {
		s.close()
		return nil, fmt.Errorf("start over: it did not come out the same: %w", err)
	}
	if err := s.call.memory.Lay(m.image.memory); err != nil {
		s.close()
		return nil, err
	}
	s.counted = true
	m.counts.created.Add(1)
	return s, nil
}
