// Package httpfront serves HTTP by a gate and handlers. It turns each request
// into one abi.Request, calls the gate, then the handler that the gate names,
// and writes one answer from both responses. A Caller may be a module in a
// sandbox or plain Go.
package httpfront

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/route"
)

// Caller answers one request. It must not keep req. What it sets in resp is
// valid until the next call with the same resp. An error means that there is no
// answer.
type Caller interface {
	Call(ctx context.Context, req *abi.Request, resp *abi.Response) error
}

// Func is a Go function in the place of a module.
type Func func(*abi.Request, *abi.Response)

// Call implements Caller.
func (f Func) Call(_ context.Context, req *abi.Request, resp *abi.Response) error {
	f(req, resp)
	return nil
}

// Module is a Caller with the names of the request headers that it may see, in
// lower case.
type Module struct {
	Caller
	Headers []string
}

// Modules are a gate and the handlers that it passes requests to.
type Modules struct {
	Gate     Module
	Handlers map[string]Module // by abi.Response.Handler
}

// Config configures a Front.
type Config struct {
	// Modules answer the requests. Required.
	Modules *Modules
	// Client returns the true address of the request's sender. Default: that of the connection.
	Client func(*http.Request) netip.Addr
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Random fills a buffer with fresh random bytes. Default: crypto/rand.
	Random func([]byte)
	// Log gets one line for each request that a module failed to answer. Default:
	// nothing is logged.
	Log *slog.Logger
	// Begin, if set, is called first, but not for a CORS preflight or a header beyond
	// MaxHeader, which are refused whatever they carry. The request is handled in ctx and answered to into. Default:
	// the request's own context, and w.
	Begin func(w http.ResponseWriter, r *http.Request) (ctx context.Context, into http.ResponseWriter)
	// Around, if set, is called before each call of a module. The call runs in
	// within, and end is called with its error.
	Around func(ctx context.Context, module string) (within context.Context, end func(error))
	// HangUp, if set, reports whether the connection ends with an answer of 400 or more.
	// Default: it stays open.
	HangUp func(r *http.Request, status int, refusal Refusal) bool
	// Routes, if set, names the route of each request in its Outcome.
	Routes *route.Table
	// Answered, if set, is called after every answer with the context that the request
	// was handled in. It must not keep the outcome.
	Answered func(context.Context, *Outcome)
}

// Front is an http.Handler that answers requests by Modules.
type Front struct {
	Config
	exchanges sync.Pool // of *exchange
	links     map[Refusal][]string
}

// New returns a Front.
func New(c Config) *Front {
	if c.Client == nil {
		c.Client = peer
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = fresh
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	f := &Front{Config: c, links: helpLinks()}
	f.exchanges.New = func() any { return &exchange{front: f} }
	return f
}

// NewLocalServer returns a server for a handler that a developer runs on their own machine,
// such as a Front. It bounds headers and times as a node does, and leaves every answer to the
// handler.
func NewLocalServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:                      handler,
		DisableGeneralOptionsHandler: true, // net/http would answer "OPTIONS *" without asking for a key
		ReadHeaderTimeout:            5 * time.Second,
		ReadTimeout:                  10 * time.Second,
		MaxHeaderBytes:               2 * MaxHeader,
	}
}

// peer returns the address at the other end of the connection, without port and
// zone, and not in the form of IPv4 mapped into IPv6.
func peer(r *http.Request) netip.Addr {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Addr().Unmap().WithZone("")
}

// exchange is one request with its answer. Its memory is reused.
type exchange struct {
	front *Front
	ctx   context.Context
	w     http.ResponseWriter
	r     *http.Request

	req     abi.Request
	gate    abi.Response
	handler abi.Response
	headers []abi.Header // of the gate, for the handler's answer
	outcome Outcome
	params  []abi.Param  // memory to find routes with
	body    bytes.Buffer // memory of the request's body
	values  []byte       // memory for joining the values of the answer's headers

	outside  bool // the last call was hindered or failed, and not by its module
	bodyRead bool // to its end, or as far as it can be
	drains   bool // the rest of the body is read behind the answer
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if drains := f.answer(w, r); drains {
		drain(w, r)
	}
}

// answer answers a request, and reports whether the rest of its body is to be read.
func (f *Front) answer(w http.ResponseWriter, r *http.Request) (drains bool) {
	start := f.Now()
	x := f.exchanges.Get().(*exchange)
	x.ctx, x.w, x.r, x.headers = r.Context(), w, r, nil
	x.bodyRead, x.drains, x.outside = false, false, false
	defer func() {
		x.ctx, x.w, x.r = nil, nil, nil
		f.exchanges.Put(x)
	}()
	x.outcome = Outcome{}
	x.flatten(start)
	x.gate.Reset()
	var handler string
	var status int
	switch {
	case headerSize(r) > MaxHeader:
		status = x.write(http.StatusRequestHeaderFieldsTooLarge, nil, headerTooLarge)
	case isPreflight(r):
		status = x.write(http.StatusForbidden, nil, noBrowsers)
	default:
		if f.Begin != nil {
			x.ctx, x.w = f.Begin(w, r)
		}
		handler, status = x.serve()
		if (status >= http.StatusInternalServerError || status == http.StatusRequestTimeout) && r.Context().Err() != nil {
			status = ClientGone
		}
	}
	if f.Answered != nil {
		x.conclude(start, handler, status)
		f.Answered(x.ctx, &x.outcome)
	}
	return x.drains
}

// serve answers by the gate and the handler that it names, "" for none.
func (x *exchange) serve() (handler string, status int) {
	modules := x.front.Modules
	// What the gate counts against a client must not hang on whether that stays.
	if err := x.call(context.WithoutCancel(x.ctx), route.Gate, modules.Gate, &x.gate); err != nil {
		return "", x.fail(route.Gate, err)
	}
	addLimits(&x.gate)
	if x.gate.Handler == "" {
		return "", x.deliver(route.Gate, &x.gate)
	}
	x.headers = x.gate.Headers

	handler = strings.Clone(x.gate.Handler) // Answered may keep it
	module, ok := modules.Handlers[handler]
	if !ok {
		return handler, x.fail(handler, errors.New("find handler: no such module"))
	}
	body, err := x.readBody()
	x.bodyRead = !errors.Is(err, errTooLarge)
	switch {
	case errors.Is(err, errTooLarge):
		return handler, x.write(http.StatusRequestEntityTooLarge, nil, tooLarge)
	case err != nil && x.malformed(err):
		if x.r.ProtoMajor == 1 {
			closeBehind(x.w)
		}
		return handler, x.write(http.StatusBadRequest, nil, malformed)
	case err != nil:
		// The client went away or was too slow. Only over HTTP/1 the connection is of no more
		// use: others have requests under way on one of HTTP/2, which this would end.
		if x.r.ProtoMajor == 1 {
			x.w.Header().Set("Connection", "close")
		}
		return handler, x.write(http.StatusRequestTimeout, nil, tooSlow)
	}
	if err := x.ctx.Err(); err != nil {
		return handler, x.fail(handler, err)
	}
	x.req.Body = body
	x.req.Principal = x.gate.Principal
	x.req.Params = x.gate.Params
	switch err := x.call(x.ctx, handler, module, &x.handler); {
	case errors.Is(err, abi.ErrTooLarge):
		return handler, x.write(http.StatusRequestEntityTooLarge, nil, tooLarge)
	case err != nil:
		return handler, x.fail(handler, err)
	}
	return handler, x.deliver(handler, &x.handler)
}

// call calls a module with the request and only the headers that it may see.
func (x *exchange) call(ctx context.Context, name string, m Module, resp *abi.Response) error {
	x.req.Headers = x.req.Headers[:0]
	for _, name := range m.Headers {
		if name == "host" { // net/http takes it out of the headers, and HTTP/2 has none
			if x.r.Host != "" {
				x.req.Headers = append(x.req.Headers, abi.Header{Name: name, Value: x.r.Host})
			}
			continue
		}
		for _, value := range x.r.Header[http.CanonicalHeaderKey(name)] {
			x.req.Headers = append(x.req.Headers, abi.Header{Name: name, Value: value})
		}
	}
	resp.Reset()
	err := x.callIn(ctx, name, m, resp)
	x.outside = resp.Hindered
	if err != nil {
		x.outside = isOutside(err)
	}
	return err
}

// isOutside reports whether a call failed for a cause outside its module.
func isOutside(err error) bool {
	var of interface{ Outside() bool }
	return errors.As(err, &of) && of.Outside()
}

func (x *exchange) callIn(ctx context.Context, name string, m Module, resp *abi.Response) error {
	if x.front.Around == nil {
		return m.Call(ctx, &x.req, resp)
	}
	ctx, end := x.front.Around(ctx, name)
	err := m.Call(ctx, &x.req, resp)
	end(err)
	return err
}

// flatten sets what gate and handler both see of the request.
func (x *exchange) flatten(now time.Time) {
	x.req = abi.Request{
		Now:     now.UnixMicro(),
		Method:  x.r.Method,
		Path:    x.r.URL.RawPath, // "" if Path has a single encoding
		Query:   x.r.URL.RawQuery,
		Headers: x.req.Headers[:0],
	}
	if x.req.Path == "" {
		x.req.Path = x.r.URL.EscapedPath()
	}
	if addr := x.front.Client(x.r); addr.IsValid() {
		x.req.Client = addr.String()
	}
	x.front.Random(x.req.Random[:])
}

func fresh(b []byte) { _, _ = rand.Read(b) } // never fails

// Seed returns a Config.Random that starts from a fixed seed, for answers that
// are always the same. It must not be used for keys.
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
