package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"partneredge/host/engine"
	"partneredge/host/prepare"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// Module is an opened module. It may be called from many goroutines at once.
type Module struct {
	runtime  *Runtime
	manifest Manifest
	limits   Limits
	digest   string
	grant    atomic.Pointer[grant]
	told     atomic.Uint64 // a bit for each abi.Op whose refusal was logged
	dialer   *wasi.Dialer

	prepared *prepare.Module
	code     engine.Code
	image    *image
	pool     pool
	counts   counts
	closing  sync.Once
}

// Manifest is what the module was opened with.
func (m *Module) Manifest() Manifest { return m.manifest }

// Digest is the SHA-256 of the module's bytes, in hexadecimal.
func (m *Module) Digest() string { return m.digest }

// SetCapabilities replaces the capabilities that the module was opened with, for
// every call that begins afterwards. Calls under way keep those that they began
// with.
func (m *Module) SetCapabilities(caps Capabilities) {
	m.grant.Store(&grant{caps, operations(m.manifest, caps)})
}

// grant is what the calls of a module may ask of the host.
type grant struct {
	caps       Capabilities
	operations uint64 // a bit for each abi.Op
}

func (g *grant) has(op abi.Op) bool { return op >= 0 && op < 64 && g.operations&(1<<op) != 0 }

// operations returns the set of operations that the manifest names and caps can do.
func operations(manifest Manifest, caps Capabilities) uint64 {
	there := map[abi.Capability]bool{
		abi.Keys: caps.Keys != nil, abi.Buckets: caps.Buckets != nil, abi.Lockouts: caps.Lockouts != nil,
		abi.Views: caps.Views != nil, abi.Subscriptions: caps.Subscriptions != nil, abi.Outbox: caps.Outbox != nil,
	}
	named := map[abi.Capability]bool{}
	for _, c := range manifest.Capabilities {
		named[c] = there[c]
	}
	var set uint64
	for op := abi.Op(0); op < 64; op++ {
		if named[op.Needs()] {
			set |= 1 << op
		}
	}
	return set
}

// denied logs, once for each operation, that the module was refused it.
// Operations that nobody knows are logged as one.
func (m *Module) denied(op abi.Op) {
	bit := uint64(1)
	if op.Needs() != "" {
		bit <<= op
	}
	if m.told.Or(bit)&bit == 0 {
		m.runtime.log.Warn("module refused a capability", "module", m.manifest.Name, "digest", m.digest,
			"op", int(op), "capability", string(op.Needs()))
	}
}

// Close frees the module. Calls under way end first. It may be called twice.
func (m *Module) Close(ctx context.Context) {
	m.runtime.mu.Lock()
	delete(m.runtime.modules, m)
	m.runtime.mu.Unlock()
	m.close(ctx)
}

func (m *Module) close(ctx context.Context) {
	m.pool.close()
	m.closing.Do(func() {
		m.image.close()
		if m.code != nil {
			_ = m.code.Close(ctx)
		}
	})
}

// Call runs one request, in a sandbox that holds nothing of any other, and
// fills resp. A zero req.Now is set to the time, a zero req.Random to fresh
// random bytes. The module gets the headers of req as they are: whoever makes req
// leaves out those that the manifest does not name (wasm/serve does).
// resp's content is good until it is used again. Every error is an *Error.
func (m *Module) Call(ctx context.Context, req *abi.Request, resp *abi.Response) error {
	m.runtime.turns.begin()
	defer m.runtime.turns.end()
	if err := m.call(ctx, req, resp); err != nil {
		m.report(err)
		return err
	}
	m.counts.calls.Add(1)
	return nil
}

func (m *Module) call(ctx context.Context, req *abi.Request, resp *abi.Response) *Error {
	if err := m.fill(req); err != nil {
		return m.fault(Failed, err)
	}
	s, failed := m.pool.take(ctx)
	if failed != nil {
		return failed
	}
	s.call.memory.Watch()
	failed = s.serve(ctx, req, resp)
	var written int
	var err error
	if failed == nil {
		written, err = s.reset()
	}
	s.call.memory.Unwatch()
	switch {
	case failed == nil && err == nil:
		m.counts.restored.Add(uint64(written))
		m.pool.put(s)
		return nil
	case failed == nil:
		m.runtime.log.Debug("sandbox discarded", "module", m.manifest.Name, "digest", m.digest, "reason", err.Error())
	}
	m.counts.discarded.Add(1)
	m.pool.discard(s)
	m.pool.replace()
	return failed
}

func (m *Module) fault(reason Reason, err error) *Error {
	return &Error{Module: m.manifest.Name, Reason: reason, Err: err}
}

// report counts and logs a failed call.
func (m *Module) report(e *Error) {
	m.counts.fail(e.Reason)
	level := slog.LevelError
	if e.Reason == Canceled || e.Reason == Closed {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{slog.String("module", m.manifest.Name), slog.String("digest", m.digest),
		slog.String("reason", string(e.Reason))}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	m.runtime.log.LogAttrs(context.Background(), level, "module call failed", attrs...)
}

func (m *Module) fill(req *abi.Request) error {
	if req.Now == 0 {
		req.Now = m.runtime.clock().UnixMicro()
	}
	if req.Random == [32]byte{} {
		if _, err := io.ReadFull(m.runtime.random, req.Random[:]); err != nil {
			return fmt.Errorf("read randomness: %w", err)
		}
	}
	return nil
}
