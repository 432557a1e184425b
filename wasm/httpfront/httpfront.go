// Package httpfront turns a gate and its handlers into an http.Handler: it flattens
// the request once, asks the gate, then the handler that the gate named, and
// joins their answers. Whether a Caller is a module in a sandbox or plain Go
// makes no difference to it.
package httpfront

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"partneredge/wasm/abi"
)

// MaxBody is the largest request body that is read, in bytes.
const MaxBody = 64 << 10

// maxDrain is how much of a body that nobody wants is taken off a connection
// before it is closed, in bytes: as much as net/http takes off one that stays.
const maxDrain = 256 << 10

// Caller answers one request. It keeps nothing of req; what resp holds stays
// good until the next call with it. An error means that there is no answer.
type Caller interface {
	Call(ctx context.Context, req *abi.Request, resp *abi.Response) error
}

// Module is a Caller and the request headers it is shown, in lower case.
type Module struct {
	Caller
	Headers []string
}

// Modules is the modules that answer together.
type Modules struct {
	Gate     Module
	Handlers map[string]Module // by the name that the gate's answer gives
}

// Config of a Front. The zero value of a field is its default, where one is
// named.
type Config struct {
	// Modules answer the requests. Required.
	Modules *Modules
	// Client is the true address of who sent the request. Default: the peer.
	Client func(*http.Request) netip.Addr
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Random fills a buffer with fresh random bytes. Default: crypto/rand.
	Random func([]byte)
	// Log gets one line for each request that could not be answered. Default:
	// none is written.
	Log *slog.Logger
	// Begin, if set, is called first: the request is answered within ctx, to into.
	// Default: the request's own context, and w.
	Begin func(w http.ResponseWriter, r *http.Request) (ctx context.Context, into http.ResponseWriter)
	// Around, if set, is called before a module is: the module is called with ctx,
	// and end is told of its error.
	Around func(ctx context.Context, module string) (within context.Context, end func(error))
	// Answered, if set, is told of every answer with Begin's context: the handler
	// ("" when the gate answered) and the status.
	Answered func(ctx context.Context, handler string, status int)
	// Observe, if set, is told of every answer: the handler ("" when the gate
	// answered), the status, and how long it took.
	Observe func(handler string, status int, took time.Duration)
}

// Front is the http.Handler.
type Front struct {
	Config
	calls sync.Pool // of *call
}

// New makes a Front.
func New(c Config) *Front {
	if c.Client == nil {
		c.Client = Peer
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = func(b []byte) { _, _ = rand.Read(b) } // never fails
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Front{Config: c}
	s.calls.New = func() any { return new(call) }
	return s
}

// Peer is the address at the other end of the connection, without port, zone,
// or mapping of IPv4 into IPv6.
func Peer(r *http.Request) netip.Addr {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Addr().Unmap().WithZone("")
}

// call is what one request needs; it is used again.
type call struct {
	req     abi.Request
	gate    abi.Response
	handler abi.Response
	body    []byte // room for the request's body
	values  []byte // room for the values of the answer's headers
}

// ServeHTTP implements http.Handler.
func (s *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.Now()
	c := s.calls.Get().(*call)
	defer s.calls.Put(c)

	ctx := r.Context()
	if s.Begin != nil {
		ctx, w = s.Begin(w, r)
	}
	handler, status := s.answer(ctx, w, r, c, start)
	if s.Answered != nil {
		s.Answered(ctx, handler, status)
	}
	if s.Observe != nil {
		s.Observe(handler, status, s.Now().Sub(start))
	}
}

func (s *Front) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, c *call, start time.Time) (handler string, status int) {
	s.flatten(c, r, start)
	c.show(r, s.Modules.Gate.Headers)
	c.gate.Reset()
	if err := s.call(ctx, "gate", s.Modules.Gate, &c.req, &c.gate); err != nil {
		return "", s.fail(ctx, w, r, c, nil, "gate", err)
	}
	if c.gate.Handler == "" {
		return "", s.deliver(ctx, w, r, c, nil, &c.gate, "gate")
	}

	handler = strings.Clone(c.gate.Handler) // an observer may keep it
	module, ok := s.Modules.Handlers[handler]
	if !ok {
		return handler, s.fail(ctx, w, r, c, c.gate.Headers, handler, errors.New("find handler: no such module"))
	}
	body, err := c.read(w, r)
	switch {
	case errors.Is(err, errTooLarge):
		return handler, c.write(w, r, http.StatusRequestEntityTooLarge, c.gate.Headers, nil, tooLarge)
	case err != nil:
		// The client went away or was too slow; the connection cannot go on.
		w.Header().Set("Connection", "close")
		return handler, c.write(w, r, http.StatusRequestTimeout, c.gate.Headers, nil, tooSlow)
	}
	c.req.Body = body
	c.req.Principal = c.gate.Principal
	c.req.Param = c.gate.Param
	c.show(r, module.Headers)
	c.handler.Reset()
	if err := s.call(ctx, handler, module, &c.req, &c.handler); err != nil {
		return handler, s.fail(ctx, w, r, c, c.gate.Headers, handler, err)
	}
	return handler, s.deliver(ctx, w, r, c, c.gate.Headers, &c.handler, handler)
}

func (s *Front) call(ctx context.Context, name string, m Module, req *abi.Request, resp *abi.Response) error {
	if s.Around == nil {
		return m.Call(ctx, req, resp)
	}
	ctx, end := s.Around(ctx, name)
	err := m.Call(ctx, req, resp)
	end(err)
	return err
}

// flatten makes the frame that gate and handler share.
func (s *Front) flatten(c *call, r *http.Request, now time.Time) {
	c.req = abi.Request{
		Now:     now.UnixMicro(),
		Method:  r.Method,
		Path:    r.URL.RawPath, // "" where it is what Path is escaped to
		Query:   r.URL.RawQuery,
		Headers: c.req.Headers[:0],
	}
	if c.req.Path == "" {
		c.req.Path = r.URL.EscapedPath()
	}
	if addr := s.Client(r); addr.IsValid() {
		c.req.Client = addr.String()
	}
	s.Random(c.req.Random[:])
}

// show makes names the only headers of the request.
func (c *call) show(r *http.Request, names []string) {
	c.req.Headers = c.req.Headers[:0]
	for _, name := range names {
		for _, value := range r.Header[http.CanonicalHeaderKey(name)] {
			c.req.Headers = append(c.req.Headers, abi.Header{Name: name, Value: value})
		}
	}
}

var errTooLarge = errors.New("read body: too large")

// read reads the body, at most MaxBody bytes of it.
func (c *call) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > MaxBody {
		return nil, errTooLarge
	}
	limited := http.MaxBytesReader(w, r.Body, MaxBody)
	c.body = c.body[:0]
	for {
		if len(c.body) == cap(c.body) {
			c.body = slices.Grow(c.body, 512)
		}
		n, err := limited.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		if err == io.EOF {
			return c.body, nil
		}
		if err != nil {
			if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
				return nil, errTooLarge
			}
			return nil, err
		}
	}
}

// drain takes what is left of the body off a connection that closes with the
// answer. net/http does so only where the connection stays; closing on unread
// data resets the connection, and the client, still writing, may never see the
// answer. Past maxDrain the connection is half-closed first and then waits.
func drain(w http.ResponseWriter, r *http.Request) {
	if !r.Close || r.Body == nil || r.Body == http.NoBody || r.Header.Get("Expect") != "" {
		return
	}
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxDrain)) // a client that is gone needs none of it
}

// Seed makes a Random of a fixed seed, for answers that can be told beforehand.
// It is not for keys.
func Seed(seed uint64) func([]byte) {
	var mu sync.Mutex
	next := seed
	return func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		for i := 0; i < len(b); i += 8 {
			// SplitMix64 (Steele, Lea, Flood 2014).
			next += 0x9e3779b97f4a7c15
			z := next
			z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
			z = (z ^ z>>27) * 0x94d049bb133111eb
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], z^z>>31)
			copy(b[i:], word[:])
		}
	}
}
