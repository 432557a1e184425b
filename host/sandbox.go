package host

import (
	"context"
	"errors"
	"time"

	"partneredge/host/engine"
	"partneredge/host/prepare"
	"partneredge/wasm/abi"
)

// sandbox is an instance of a module, for one request at a time.
type sandbox struct {
	call      *call
	instance  engine.Instance
	handle    engine.Function
	globals   []engine.Global // as in prepare.Module.Globals
	fuel      engine.Global
	state     engine.Global
	inputAt   uint32
	inputRoom uint32
	stack     [2]uint64
	warmedUp  time.Duration // of computing, where the warm-up ran in this sandbox
	reserves  bool          // it counts against Config.Memory: so does what it grows by
}

// start makes the instance and finds its exports. Nothing runs.
func (s *sandbox) start(ctx context.Context) (err error) {
	m := s.call.m
	s.call.memory.Grow, s.call.memory.Ungrow = s.mayGrow, s.undoGrow
	if s.instance, err = m.code.Start(ctx, s.call.memory); err != nil {
		return err
	}
	s.handle = s.instance.Function(abi.ExportHandle, []engine.ValueType{engine.I32}, []engine.ValueType{engine.I64})
	if s.handle == nil {
		s.instance.Close(ctx)
		return errors.New("it does not export " + abi.ExportHandle)
	}
	s.fuel, s.state = s.instance.Global(prepare.ExportFuel), s.instance.Global(prepare.ExportState)
	s.globals = make([]engine.Global, len(m.prepared.Globals))
	for i, name := range m.prepared.Globals {
		s.globals[i] = s.instance.Global(name)
	}
	return nil
}

// mayGrow reports whether the module's limit and Config.Memory let memory grow.
func (s *sandbox) mayGrow(from, to int) bool {
	m := s.call.m
	if to <= m.maxMemory() && (!s.reserves || m.runtime.ceiling.reserve(&m.pool, to-from, false)) {
		return true
	}
	s.call.refused = true
	return false
}

// undoGrow undoes what mayGrow granted and the system refused.
func (s *sandbox) undoGrow(from, to int) {
	if s.reserves {
		s.call.m.runtime.ceiling.unreserve(&s.call.m.pool, to-from)
	}
	s.call.refused = true
}

// serve passes the guest a request and reads its response.
func (s *sandbox) serve(ctx context.Context, req *abi.Request, resp *abi.Response) *Error {
	c := s.call
	c.begin(ctx, req.Principal, req.Now)
	defer c.end()
	room := s.instance.Memory()[s.inputAt:][:s.inputRoom:s.inputRoom]
	frame := req.Append(room[:0])
	if len(frame) > len(room) {
		return c.m.fault(RequestSize, abi.ErrTooLarge)
	}
	c.fuel = c.mostFuel()
	s.fuel.Set(uint64(c.fuel))
	s.stack[0] = uint64(len(frame))
	if err := c.run(s.handle, s.stack[:]); err != nil {
		return c.failure(err)
	}
	at, n := uint64(uint32(s.stack[0]>>32)), uint64(uint32(s.stack[0]))
	bytes := s.instance.Memory()
	switch {
	case s.stack[0] == 0:
		return c.m.fault(BadResponse, errors.New("the guest could not read the request, or has no handler"))
	case n > uint64(c.m.limits.Response):
		return c.m.fault(ResponseSize, nil)
	case at+n > uint64(len(bytes)):
		return c.m.fault(BadPointer, nil)
	}
	if err := resp.ParseCopy(bytes[at : at+n]); err != nil {
		return c.m.fault(BadResponse, err)
	}
	return nil
}

var (
	errGrew    = errors.New("memory grew")
	errGlobals = errors.New("a global is not as in the image")
	errStack   = errors.New("its stack has grown")
	errState   = errors.New("a table, a segment or a reference changed")
)

// unchanged returns an error when something changed that reset cannot restore.
func (s *sandbox) unchanged() error {
	switch image := s.call.m.image; {
	case s.call.memory.Len() != image.size():
		return errGrew
	case s.state.Get() != image.state:
		return errState
	case s.handle.StackSize() > keptStack:
		return errStack
	}
	return nil
}

// reset restores the sandbox to the image. After an error it must be closed.
func (s *sandbox) reset() (written int, err error) {
	if err := s.unchanged(); err != nil {
		return 0, err
	}
	for i, g := range s.globals {
		// Go's compiler passes results in globals: some differ after every call.
		if v := s.call.m.image.globals[i]; g.Get() != v {
			g.Set(v)
		}
	}
	return s.call.memory.Reset()
}

// same returns an error when the sandbox, apart from the content of its memory, is
// not as in the image.
func (s *sandbox) same() error {
	for i, g := range s.globals {
		if g.Get() != s.call.m.image.globals[i] {
			return errGlobals
		}
	}
	return s.unchanged()
}

// close frees the sandbox and returns how many bytes it had.
func (s *sandbox) close() int {
	n := s.call.memory.Len()
	s.instance.Close(context.Background())
	s.call.memory.Free()
	return n
}
