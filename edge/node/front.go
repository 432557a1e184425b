package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"partneredge/edge/connections"
	"partneredge/edge/node/openapi"
	"partneredge/edge/proxies"
	"partneredge/edge/wire"
	"partneredge/wasm/apikey"
	"partneredge/wasm/httpfront"
)

// Bounds of a listener.
const (
	maxHeader   = 2*httpfront.MaxHeader - 320 // bytes of a request's line and headers; net/http adds 320 over HTTP/2, which counts 32 more for each header, and else 4 KiB
	maxReceived = 2 * httpfront.MaxBody       // bytes of bodies that a connection of HTTP/2 holds before they are read
	idleTimeout = 75 * time.Second
	parkAfter   = time.Second // of idleness, from which on a connection of HTTP/1 takes little memory
)

// withDocs serves the API's document, its reference and its guide by the handler that
// docs returns, and all else by api.
func withDocs(docs func() http.Handler, api http.Handler) http.Handler {
	api = openapi.WithRoot(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if openapi.Serves(r.URL.Path) {
			docs().ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// healthPath is where a balancer in front of the node asks whether to send requests.
const healthPath = "/healthz"

// withHealth answers healthPath without a key, and all else by api: 200, or 503 while
// the node can answer no request well.
func withHealth(serves func() bool, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != healthPath || r.Method != http.MethodGet && r.Method != http.MethodHead {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !serves() {
			http.Error(w, "unavailable", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
}

// moduleFront configures how the modules of a release answer HTTP. findKey is
// replication's; nil for modules that look keys up by themselves.
func (n *Node) moduleFront(findKey func(context.Context, netip.Addr, string) context.Context) httpfront.Config {
	c := n.config
	trusted := proxies.Set(c.TrustedProxies)
	begin := func(w http.ResponseWriter, r *http.Request) (context.Context, http.ResponseWriter) {
		ctx, w := withAge(w, r)
		if token := keyIn(r.Header); token != "" && findKey != nil {
			ctx = findKey(ctx, trusted.Client(r), token)
		}
		return ctx, w
	}
	front := httpfront.Config{
		Client: trusted.Client, Now: c.Now, Log: c.Log, Begin: begin, HangUp: hangsUp(trusted.Has), Answered: n.answered,
	}
	traceFront(c.Tracer, &front)
	return front
}

// answered counts an answer, and keeps it in the request log.
func (n *Node) answered(_ context.Context, o *httpfront.Outcome) {
	n.metrics.answered(o)
	n.requests.Add(&wire.AnsweredRequest{
		ID: o.RequestID, At: o.At, TookUS: o.Took.Microseconds(), KeyID: o.Principal.KeyID, AccountID: o.Principal.AccountID,
		Method: o.Method, Route: o.Route, Status: o.Status, Code: o.Refusal.Code, Reason: o.Refusal.Reason,
	})
}

// keyIn returns the key in a request's header, "" for none that is well-formed. The
// gate decides; a key that it finds in another way is looked up then.
func keyIn(header http.Header) string {
	values := header["Authorization"]
	if len(values) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	if !apikey.Valid(token) || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return token
}

// partnerConnections bound a listener's connections, and its requests over HTTP/2. No one
// address, nor all of one network, can hold what others need.
var partnerConnections = connections.Bounds{All: 16_384, Address: 1024, Network: 4096}

// listener is an HTTP server and where it listens.
type listener struct {
	server *http.Server
	url    string
	done   chan struct{} // closed when it accepts no more
}

// CheckListen returns an error if nobody can listen on addr at present. A node learns so
// before it compiles its modules that it could not serve. It does not keep the address bound
// meanwhile: clients and balancers would wait for answers, where a refused connection sends
// them to another node at once.
func CheckListen(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return ln.Close()
}

// listen starts to serve handler on addr. tlsConfig is nil for plain HTTP.
func listen(addr string, tlsConfig *tls.Config, handler http.Handler, c Config) (*listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l := &listener{done: make(chan struct{}), url: "http://" + ln.Addr().String()}
	bounded := connections.Bound(ln, c.connections, proxies.Set(c.TrustedProxies).Has, c.Log)
	if tlsConfig != nil {
		l.url = "https://" + ln.Addr().String()
		handler = connections.BoundRequests(handler, c.connections, proxies.Set(c.TrustedProxies).Has)
	}
	parking := connections.Park(bounded, connections.Parking{
		After: parkAfter, IdleTimeout: idleTimeout, TLS: tlsConfig, HandshakeTimeout: c.HandshakeTimeout,
	})
	l.server = &http.Server{
		Handler: handler,
		// net/http would answer "OPTIONS *" itself, without asking for a key.
		DisableGeneralOptionsHandler: true,

		ReadHeaderTimeout: c.HandshakeTimeout,
		ReadTimeout:       c.ReadTimeout,
		WriteTimeout:      c.WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     httpfront.MaxBody,
			MaxReceiveBufferPerConnection: maxReceived,
		},
		TLSConfig:   tlsConfig,
		ConnState:   parking.Observe,
		BaseContext: func(net.Listener) context.Context { return withScarce(context.Background(), bounded.Scarce) },
		ErrorLog:    slog.NewLogLogger(clientErrors{c.Log.Handler()}, slog.LevelDebug),
	}
	go func() {
		defer close(l.done)
		if err := l.server.Serve(parking); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("listener failed", "addr", addr, "err", err)
		}
	}()
	return l, nil
}

// stop lets requests under way end, until ctx does.
func (l *listener) stop(ctx context.Context) error {
	defer func() { <-l.done }()
	if err := l.server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop listener: %w", err), l.server.Close())
	}
	return nil
}

// clientErrors drops what net/http logs of clients that do not speak TLS or go
// away: anybody can cause it, as often as they like.
type clientErrors struct{ slog.Handler }

// Handle implements slog.Handler.
func (h clientErrors) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "http: TLS handshake error") || strings.HasPrefix(r.Message, "http2: ") {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}
