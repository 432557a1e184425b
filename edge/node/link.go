package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/host"
)

// link is the connection to the origin. It comes back by itself for as long as
// the node runs; while it is away, every request fails at once.
type link struct {
	id      string // of the node
	conn    *nats.Conn
	turns   chan struct{} // holds one for each request under way
	observe func(verb, outcome string, took time.Duration)
	seldom  *logging.Limiter
	tracer  *tracing.Tracer

	dialled chan struct{} // closed when conn is set
	barred  chan error    // holds one: waiting for the origin does not help

	mu   sync.Mutex
	last error // why there was no connection the last time
}

// Between two tries to connect lie from reconnectWait to both of these: nodes
// that lost the origin together do not come back together.
const (
	reconnectWait   = 200 * time.Millisecond
	reconnectJitter = 800 * time.Millisecond
)

// requestsAtOnce bounds what a flood of keys nobody has seen can ask.
const requestsAtOnce = 256

// errRefused is an origin's answer that a request makes no sense to it.
var errRefused = errors.New("origin finds the request invalid")

// dial begins to connect, and returns before that has come to anything.
// connected is called each time that the connection is there (again), lost each
// time that it is gone.
func dial(c Config, connected, lost func(), observe func(string, string, time.Duration)) (*link, error) {
	id, err := readCredentials(c.Credentials)
	if err != nil {
		return nil, err
	}
	l := &link{
		id: id, turns: make(chan struct{}, requestsAtOnce), observe: observe, seldom: logging.New(c.Log), tracer: c.Tracer,
		dialled: make(chan struct{}), barred: make(chan error, 1),
	}
	options := []nats.Option{
		nats.Name(id),
		nats.UserCredentials(c.Credentials),
		nats.CustomInboxPrefix(wire.Inbox(id)),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(int) time.Duration {
			<-l.dialled
			// A try that failed after it had a connection is told of nowhere else.
			if err := l.conn.LastError(); err != nil {
				l.failed(err)
			}
			return reconnectWait + rand.N(reconnectJitter)
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.failed(err) }),
		nats.ReconnectBufSize(-1),   // what cannot be sent now fails now
		nats.IgnoreAuthErrorAbort(), // a revoked node may be enrolled again
		nats.Timeout(5 * time.Second),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(*nats.Conn) {
			c.Log.Info("connected to origin")
			connected()
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			c.Log.Info("connected to origin again")
			connected()
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			lost()
			if err != nil {
				l.seldom.Warn("lost", "lost the origin", "err", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if lasting(troubleOf(err)) {
				l.failed(err)
				return
			}
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			l.seldom.Warn("nats", "nats", "subject", subject, "err", err)
		}),
	}
	if c.OriginCA != "" {
		if err := checkCA(c.OriginCA); err != nil {
			return nil, err
		}
		options = append(options, nats.RootCAs(c.OriginCA))
	}
	if c.dialer != nil {
		options = append(options, nats.SetCustomDialer(c.dialer))
	}
	if l.conn, err = nats.Connect(c.Origin, options...); err != nil {
		return nil, fmt.Errorf("connect to origin: %w", err)
	}
	close(l.dialled)
	return l, nil
}

// failed is called each time that the origin is not to be worked with, and why.
func (l *link) failed(err error) {
	err = troubleOf(err)
	l.mu.Lock()
	l.last = err
	l.mu.Unlock()
	kind := "away"
	for _, known := range []error{ErrNotEnrolled, ErrCertificate, ErrVersion} {
		if errors.Is(err, known) {
			kind = known.Error()
		}
	}
	l.seldom.Warn(kind, "going on without the origin", "err", err)
	if lasting(err) {
		select {
		case l.barred <- err:
		default:
		}
	}
}

// lastFailure is why there was no connection the last time, nil when every try
// came to something.
func (l *link) lastFailure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// up tells whether a request has somewhere to go.
func (l *link) up() bool { return l.conn.IsConnected() }

// ask sends req and waits for reply until ctx ends. The error is wrapped
// host.ErrNotFound or host.ErrLimit where that is the answer, errRefused where
// the origin cannot make sense of req, host.ErrUnavailable where there is no
// answer now.
func (l *link) ask(ctx context.Context, verb string, req, reply wire.Message) error {
	began := time.Now()
	ctx, span := l.tracer.Begin(ctx, "origin "+verb)
	err := l.exchange(ctx, verb, req, reply)
	outcome := "ok"
	switch {
	case err == nil:
	case errors.Is(err, host.ErrNotFound):
		outcome = "not_found"
	case errors.Is(err, host.ErrLimit):
		outcome = "limit"
	case errors.Is(err, errRefused):
		outcome = "invalid"
	default:
		outcome = "unavailable"
	}
	l.observe(verb, outcome, time.Since(began))
	span.Set("edge.outcome", outcome)
	if outcome == "unavailable" {
		span.Fail(outcome)
	}
	span.End()
	if err != nil {
		return fmt.Errorf("ask origin for %s: %w", verb, err)
	}
	return nil
}

func (l *link) exchange(ctx context.Context, verb string, req, reply wire.Message) error {
	if !l.up() {
		return fmt.Errorf("%w: not connected", host.ErrUnavailable)
	}
	*req.Header() = wire.Head{V: wire.Version, Trace: tracing.Carried(ctx)}
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	select {
	case l.turns <- struct{}{}:
		defer func() { <-l.turns }()
	case <-ctx.Done():
		return fmt.Errorf("%w: too many requests: %w", host.ErrUnavailable, ctx.Err())
	}
	msg, err := l.conn.RequestWithContext(ctx, wire.Subject(l.id, verb), body)
	if err != nil {
		return fmt.Errorf("%w: %w", host.ErrUnavailable, err)
	}
	if err := l.read(msg.Data, reply); err != nil {
		return fmt.Errorf("%w: %w", host.ErrUnavailable, err)
	}
	switch head := reply.Header(); head.Failure {
	case "":
		return nil
	case wire.NotFound:
		return host.ErrNotFound
	case wire.Limit:
		return host.ErrLimit
	case wire.Invalid:
		return errRefused
	case wire.NotEnrolled:
		l.failed(ErrNotEnrolled)
		return fmt.Errorf("%w: %w", host.ErrUnavailable, ErrNotEnrolled)
	default:
		return fmt.Errorf("%w: origin says %s", host.ErrUnavailable, head.Failure)
	}
}

// read takes in a message of the origin's. Another version may have given a
// field another type, so the version is looked at whatever else is wrong.
func (l *link) read(data []byte, m wire.Message) error {
	malformed := json.Unmarshal(data, m)
	switch v := m.Header().V; {
	case wire.Understood(v) && malformed == nil:
		return nil
	case wire.Understood(v) || v == 0:
		return errors.New("what origin says cannot be read")
	default:
		err := fmt.Errorf("%w: %d, and this node %d", ErrVersion, v, wire.Version)
		l.failed(err)
		return err
	}
}

// hear is read of what nobody asked for: false where it is to be left alone.
func (l *link) hear(verb string, data []byte, m wire.Message) bool {
	err := l.read(data, m)
	if err != nil && !errors.Is(err, ErrVersion) { // of which there was a warning
		l.seldom.Warn(verb, "message left alone", "verb", verb, "err", err)
	}
	return err == nil
}

// tell sends a message that nobody answers.
func (l *link) tell(verb string, m wire.Message) error {
	*m.Header() = wire.Head{V: wire.Version}
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("tell origin %s: %w", verb, err)
	}
	if err := l.conn.Publish(wire.Subject(l.id, verb), body); err != nil {
		return fmt.Errorf("tell origin %s: %w", verb, err)
	}
	return nil
}

// listen has what the origin sends to this node under a verb handled, one
// message after the other, until the connection is closed.
func (l *link) listen(verb string, handle func(*nats.Msg)) error {
	if _, err := l.conn.Subscribe(wire.ToNode+l.id+"."+verb, handle); err != nil {
		return fmt.Errorf("hear of %s: %w", verb, err)
	}
	return nil
}
