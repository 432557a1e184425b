package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"partneredge/edge/backoff"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what an endpoint may send, and when.
const (
	// DefaultTimeout is the default of Config.Timeout.
	DefaultTimeout = 10 * time.Second
	// ExcerptMost is the bytes of an answer's body that are kept.
	ExcerptMost = 4 << 10

	drainMost   = 64 << 10 // bytes that are read so that the connection can be used again
	headersMost = 64 << 10
)

// newTransport makes a transport that calls endpoints through the guard, and by
// no proxy whatever the environment says.
func newTransport(c Config) (*http.Transport, error) {
	roots, err := loadRoots(c.CAFile)
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:       nil, // else the guard would see the proxy's address
		DialContext: paced(c.Guard.Dial(c.Timeout)),
		TLSClientConfig: &tls.Config{
			RootCAs:            roots,
			MinVersion:         tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(1024),
		},
		TLSHandshakeTimeout: c.Timeout,
		ForceAttemptHTTP2:   true,
		HTTP2: &http.HTTP2Config{
			// Bounds of what an endpoint can make this process hold.
			MaxReceiveBufferPerStream:     64 << 10,
			MaxReceiveBufferPerConnection: 1 << 20,
			SendPingTimeout:               15 * time.Second, // finds a connection that died unnoticed
			PingTimeout:                   5 * time.Second,
			// No table of headers: most differ in each request, so they push each
			// other out; without it 2 % more deliveries are made a second.
			MaxEncoderHeaderTableSize: 1,
		},
		MaxIdleConns: 2048,
		// Many subscriptions can share a host.
		MaxIdleConnsPerHost:    32 * c.PerEndpoint,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: headersMost,
		DisableCompression:     true, // what is kept is what was sent
	}, nil
}

// aging is a transport whose connections get no new requests once they have an age: a busy
// one would else last forever, and with it the address that its endpoint's name once had.
type aging struct {
	age time.Duration

	mu      sync.Mutex
	current *generation
	closing sync.WaitGroup // of idle connections of old generations
}

// generation is a transport whose connections grow old together.
type generation struct {
	*http.Transport
	began time.Time
	calls int // under way
}

func newAging(first *http.Transport, age time.Duration) *aging {
	return &aging{age: age, current: &generation{Transport: first, began: time.Now()}}
}

// RoundTrip makes a call over a connection that is young enough, or a new one.
func (a *aging) RoundTrip(r *http.Request) (*http.Response, error) {
	g := a.enter()
	defer a.leave(g)
	return g.Transport.RoundTrip(r)
}

// enter adds a call to the generation of now.
func (a *aging) enter() *generation {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.current; time.Since(old.began) >= a.age {
		a.current = &generation{Transport: old.Clone(), began: time.Now()} // with its TLS sessions
		a.closeIdle(old)
	}
	a.current.calls++
	return a.current
}

// leave ends a call.
func (a *aging) leave(g *generation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	g.calls--
	a.closeIdle(g)
}

// closeIdle begins to close the idle connections of an old generation whose last call has ended,
// not earlier: one that was just dialled for a call is idle as well. That takes 5 s for each whose
// endpoint does not read. One of HTTP/2 may not be idle yet, and closes when it has been for long.
// a.mu is held.
func (a *aging) closeIdle(g *generation) {
	if g != a.current && g.calls == 0 {
		a.closing.Go(g.CloseIdleConnections)
	}
}

// CloseIdleConnections closes the connections that have no call. No call begins any more.
func (a *aging) CloseIdleConnections() {
	a.current.CloseIdleConnections()
	a.closing.Wait()
}

// net/http makes a request again over another connection, as often as the endpoint
// refuses it over HTTP/2: by GOAWAY, for one. Without a pause a try would make hundreds of
// connections a second.
const (
	dialsAtOnce  = 3                     // connections of a try that need no pause
	dialPause    = 50 * time.Millisecond // before the next one; twice as long before each further one
	maxDialPause = time.Second
)

// tryKey is the key of the *atomic.Int32 that counts the connections of a try, in its context.
type tryKey struct{}

// paced returns dial with a pause before a try's next connection once it has made some.
func paced(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials, ok := ctx.Value(tryKey{}).(*atomic.Int32); ok {
			if n := dials.Add(1) - dialsAtOnce; n > 0 && backoff.Pause(ctx, min(dialPause<<min(n-1, 10), maxDialPause)) != nil {
				return nil, context.Cause(ctx)
			}
		}
		return dial(ctx, network, address)
	}
}

// warnOfNoRoots logs an error where no endpoint will be trusted. The origin does the rest
// of its work all the same.
func warnOfNoRoots(c Config) {
	if c.CAFile != "" {
		return
	}
	roots, err := x509.SystemCertPool()
	if err == nil && roots.Equal(x509.NewCertPool()) {
		err = errors.New("this system has no certificates of authorities")
	}
	if err != nil {
		c.Log.Error("no webhook can be delivered: install ca-certificates, or give --webhook-ca, and restart", "err", err)
	}
}

// loadRoots returns the system's certificates and those of a file; nil for the
// system's alone.
func loadRoots(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read webhook CA file: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("read webhook CA file: it holds no certificate")
	}
	return roots, nil
}
