package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"

	"partneredge/host/engine"
	"partneredge/host/prepare"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// Manifest says what a module is and what it may do. It lies beside the module as
// <name>.json.
type Manifest struct {
	// Name of the module: gate, or the handler's name that a gate's answer names.
	Name string `json:"name"`
	// Routes are the endpoints that the module answers. A gate has none. A manifest
	// without the field is older than routes: see package route.
	Routes []abi.Route `json:"routes,omitzero"`
	// OpenAPI describes the routes: the members paths and components of an OpenAPI 3.1
	// document, which the node joins with the document that it serves. It lies as
	// openapi.json beside a module's source, and is put in here when the module is
	// built. None by default.
	OpenAPI json.RawMessage `json:"openapi,omitempty"`
	// Capabilities granted. None by default.
	Capabilities []abi.Capability `json:"capabilities"`
	// Headers are the names of the request headers that the front passes to the
	// module, in lower case; "host" is the host that was asked, of HTTP/2 too. None by
	// default.
	Headers []string `json:"headers"`
	// AllowDial are the host:port pairs that the module may connect to over TCP. A host
	// is a name, which the host program looks up, or an address; Config.CheckDial must
	// allow its address. None by default: the guest is refused sockets (ENOTSUP).
	AllowDial []string `json:"allow_dial,omitempty"`
	// Warmup are requests that the module answers before its image is made, in order,
	// so that what it makes on its first requests is in the image. Each has a made-up
	// principal, and every operation a made-up answer. By default there is one: GET /.
	Warmup []Warmup `json:"warmup,omitempty"`
}

// Warmup is one request of a warm-up.
type Warmup struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Query  string `json:"query,omitempty"`
	// Params are the parameters of the request's path, by the names that its route
	// gives them.
	Params map[string]string `json:"params,omitempty"`
	// Param is the one parameter of the path, in a manifest older than Params.
	Param   string            `json:"param,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`
}

// Module is an opened module. It may be called from many goroutines at once.
type Module struct {
	runtime   *Runtime
	manifest  Manifest
	limits    Limits
	sum       [sha256.Size]byte // of the module's bytes
	digest    string            // the same, in hexadecimal
	grant     atomic.Pointer[grant]
	denied    atomic.Uint64 // a bit for each abi.Op whose refusal for want of a capability was logged
	unscoped  atomic.Uint64 // and for want of a scope
	malformed atomic.Uint64 // and because of its frame
	invalid   atomic.Uint64 // and because a capability found it invalid
	dialer    *wasi.Dialer

	prepared *prepare.Module
	code     engine.Code
	warmUp   *warmUp
	image    *image
	routes   []byte // frame of Capabilities.Routes
	pool     pool
	counts   counts
	closing  sync.Once
}

// Manifest returns the manifest that the module was opened with.
func (m *Module) Manifest() Manifest { return m.manifest }

// Digest returns the SHA-256 of the module's bytes, in hexadecimal.
func (m *Module) Digest() string { return m.digest }

// SetCapabilities replaces the capabilities that the module was opened with, for
// every call that begins afterwards. Calls under way keep those that they began
// with.
func (m *Module) SetCapabilities(caps Capabilities) { m.grant.Store(newGrant(m.manifest, caps)) }

// logDenied logs, once for each operation, that the module was refused it. All
// unknown operations are logged as one.
func (m *Module) logDenied(op abi.Op) {
	bit := uint64(1)
	if op.Needs() != "" {
		bit <<= op
	}
	m.logRefused(&m.denied, bit, "module refused a capability", op, "capability", string(op.Needs()))
}

// logUnscoped logs, once for each operation, that the module was refused it because
// the key of a request lacks its scope.
func (m *Module) logUnscoped(op abi.Op) {
	m.logRefused(&m.unscoped, 1<<op, "module refused an operation: the request's key lacks the scope for it", op,
		"scope", abi.ScopeNames[bits.TrailingZeros32(uint32(op.Scope()))])
}

// logMalformed logs, once for each operation, that the module was refused it because the
// frame is malformed or too long.
func (m *Module) logMalformed(op abi.Op) {
	m.logRefused(&m.malformed, 1<<op, "module refused an operation: its frame is malformed or too long", op)
}

// logInvalid logs, once for each operation, that a capability refused it to the module as
// invalid: a guest may ask for that in every call to the host.
func (m *Module) logInvalid(op abi.Op, err error) {
	m.logRefused(&m.invalid, 1<<op, "module refused an operation: its capability finds it invalid", op,
		"error", strings.ToValidUTF8(err.Error(), "?"))
}

// logRefused logs that the module was refused an operation, unless logged has the bit, which it
// sets.
func (m *Module) logRefused(logged *atomic.Uint64, bit uint64, message string, op abi.Op, more ...any) {
	if logged.Or(bit)&bit == 0 {
		m.runtime.config.Log.Warn(message, append([]any{"module", m.manifest.Name, "digest", m.digest, "op", int(op)}, more...)...)
	}
}

// Close frees the module, once the calls under way have ended. It may be called
// twice.
func (m *Module) Close(ctx context.Context) {
	m.pool.close() // waits for the calls under way, for remove to keep what they count
	m.runtime.remove(m)
	m.close(ctx)
}

func (m *Module) close(ctx context.Context) {
	m.pool.close()
	m.closing.Do(func() {
		m.pool.leave()
		m.image.memory.Close()
		_ = m.code.Close(ctx)
	})
}

// Call runs one request, in a sandbox that holds nothing of any other, and fills
// resp. A zero req.Now is set to the time, a zero req.Random to fresh random bytes.
// The module gets the headers of req as they are: whoever makes req leaves out those
// that the manifest does not name (wasm/httpfront does). resp's content is good until
// resp is used again. Every error is an *Error.
func (m *Module) Call(ctx context.Context, req *abi.Request, resp *abi.Response) error {
	m.runtime.yielder.begin()
	defer m.runtime.yielder.end()
	if err := m.call(ctx, req, resp); err != nil {
		m.report(err)
		return err
	}
	m.counts.calls.Add(1)
	return nil
}

func (m *Module) call(ctx context.Context, req *abi.Request, resp *abi.Response) *Error {
	if err := m.complete(req); err != nil {
		return m.fault(Failed, err)
	}
	s, failed := m.pool.get(ctx)
	if failed != nil {
		return failed
	}
	s.call.memory.Watch()
	failed = s.serve(ctx, req, resp)
	resp.Hindered = s.call.hindered
	var written int
	var err error
	whole := failed == nil || failed.Reason == RequestSize // of which the guest saw nothing
	if whole {
		written, err = s.reset()
	}
	s.call.memory.Unwatch()
	switch {
	case whole && err == nil:
		m.counts.restored.Add(uint64(written))
		m.pool.put(s)
		return failed
	case whole:
		m.runtime.config.Log.Debug("sandbox discarded", "module", m.manifest.Name, "digest", m.digest, "reason", err.Error())
	}
	m.counts.discarded.Add(1)
	m.pool.discard(s)
	m.pool.replace()
	return failed
}

// complete sets the fields of req that the host sets by default.
func (m *Module) complete(req *abi.Request) error {
	if req.Now == 0 {
		req.Now = m.runtime.config.Clock().UnixMicro()
	}
	if req.Random == [32]byte{} {
		if _, err := io.ReadFull(m.runtime.config.Random, req.Random[:]); err != nil {
			return fmt.Errorf("read randomness: %w", err)
		}
	}
	return nil
}

func (m *Module) fault(reason Reason, err error) *Error {
	return &Error{Module: m.manifest.Name, Reason: reason, Err: err}
}

// report counts and logs a failed call.
func (m *Module) report(e *Error) {
	m.counts.fail(e.Reason)
	level := slog.LevelError
	switch e.Reason {
	case Canceled, RequestSize:
		level = slog.LevelDebug // any client brings them about, as often as it likes
	case Closed:
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{slog.String("module", m.manifest.Name), slog.String("digest", m.digest),
		slog.String("reason", string(e.Reason))}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	m.runtime.config.Log.LogAttrs(context.Background(), level, "module call failed", attrs...)
}
