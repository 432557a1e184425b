// Package link is a node's connection to its origin over NATS. It sends requests
// and messages, receives what the origin sends, and says why the origin cannot
// be worked with.
package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/host"
)

// Config of a Link.
type Config struct {
	// URL is the NATS URL of the origin, or several separated by commas.
	URL string
	// Credentials is the file with the node's NATS credentials.
	Credentials string
	// Region that the node stands in, which the credentials must be for.
	Region string
	// CA is a file of PEM certificates that sign the origin's. Default: those
	// that the system trusts.
	CA string
	// Dialer opens connections. Default: TCP.
	Dialer nats.CustomDialer
	// Observe is called after each request with its outcome and duration.
	Observe func(verb, outcome string, took time.Duration)
	// Tracer makes a span of each request. Default: none.
	Tracer *tracing.Tracer
	// Log gets connects, disconnects and failures.
	Log *slog.Logger
}

// Link is the connection to the origin. It reconnects by itself until it is
// closed; while there is no connection, every request fails at once.
type Link struct {
	cfg      Config
	id       string // of the node
	address  string // likewise, in subjects
	conn     *nats.Conn
	dialled  chan struct{}            // closed when conn is set
	rooms    map[string]chan struct{} // by verb: holds one for each request under way; nil: no bound
	warnings *logging.Limiter
	unusable chan error // capacity 1

	mu      sync.Mutex
	last    error // why the last try to connect failed
	revoked bool  // since the last connection the node was told so
}

// The delay between two tries to connect is drawn between reconnectWait and the
// sum of both, so that nodes that lost the origin together return one by one.
const (
	reconnectWait   = 200 * time.Millisecond
	reconnectJitter = 800 * time.Millisecond
)

// Bounds of the requests under way that partners bring about, whatever number of
// unknown keys they present. What the node asks for by itself, of each kind one
// request at a time (changes, leads, releases), waits for none of them.
const (
	maxLookups = 256 // of keys and views
	maxWrites  = 64  // of subscriptions
)

func newRooms() map[string]chan struct{} {
	lookups, writes := make(chan struct{}, maxLookups), make(chan struct{}, maxWrites)
	return map[string]chan struct{}{
		wire.VerbKey: lookups, wire.VerbView: lookups,
		wire.VerbSubscribe: writes, wire.VerbRevoke: writes,
	}
}

// New returns a Link that is not connected yet. It reads the credentials and
// the CA, and fails when either cannot be used.
func New(cfg Config) (*Link, error) {
	id, address, err := readCredentials(cfg.Credentials, cfg.Region, cfg.Log)
	if err != nil {
		return nil, err
	}
	if cfg.CA != "" {
		if err := checkCA(cfg.CA); err != nil {
			return nil, err
		}
	}
	return &Link{
		cfg: cfg, id: id, address: address, warnings: logging.New(cfg.Log),
		dialled: make(chan struct{}), rooms: newRooms(), unusable: make(chan error, 1),
	}, nil
}

// ID returns the node's id, which its credentials name.
func (l *Link) ID() string { return l.id }

// Connect begins to connect and returns at once. connected is called each time
// that a connection is made, lost each time that one ends.
func (l *Link) Connect(connected, lost func()) (err error) {
	options := []nats.Option{
		nats.Name(l.id),
		nats.UserCredentials(l.cfg.Credentials),
		nats.CustomInboxPrefix(wire.Inbox(l.address)),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(l.reconnectDelay),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.failed(err) }),
		nats.ReconnectBufSize(-1),   // what cannot be sent now fails now
		nats.IgnoreAuthErrorAbort(), // a revoked node may be enrolled again
		nats.Timeout(5 * time.Second),
		nats.PingInterval(5 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(*nats.Conn) {
			l.cfg.Log.Info("connected to origin")
			l.accepted()
			connected()
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			l.cfg.Log.Info("connected to origin again")
			l.accepted()
			connected()
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			lost()
			if err != nil {
				l.warnings.Warn("lost", "lost the origin", "err", err)
			}
		}),
		nats.ErrorHandler(l.asyncError),
	}
	if l.cfg.CA != "" {
		options = append(options, nats.RootCAs(l.cfg.CA))
	}
	if l.cfg.Dialer != nil {
		options = append(options, nats.SetCustomDialer(l.cfg.Dialer))
	}
	if l.conn, err = nats.Connect(l.cfg.URL, options...); err != nil {
		return fmt.Errorf("connect to origin: %w", err)
	}
	close(l.dialled)
	return nil
}

// Close ends the connection, if there is one.
func (l *Link) Close() {
	if l.conn != nil {
		l.conn.Close()
	}
}

func (l *Link) reconnectDelay(int) time.Duration {
	<-l.dialled
	// A try that fails after it had a connection is reported nowhere else.
	if err := l.conn.LastError(); err != nil {
		l.failed(err)
	}
	return reconnectWait + rand.N(reconnectJitter)
}

// asyncError handles the errors that NATS reports outside of any call.
func (l *Link) asyncError(_ *nats.Conn, s *nats.Subscription, err error) {
	if Permanent(classify(err)) {
		l.failed(err)
		return
	}
	subject := ""
	if s != nil {
		subject = s.Subject
	}
	l.warnings.Warn("nats", "NATS reports an error", "subject", subject, "err", err)
}

// failed keeps and logs why the origin cannot be worked with.
func (l *Link) failed(err error) {
	err = classify(err)
	l.mu.Lock()
	l.last = err
	l.revoked = l.revoked || errors.Is(err, nats.ErrAuthRevoked)
	l.mu.Unlock()
	cause := "away"
	if i := permanentIndex(err); i >= 0 {
		cause = permanent[i].Error()
		select {
		case l.unusable <- err:
		default:
		}
	}
	l.warnings.Warn(cause, "going on without the origin", "err", err)
}

// LastFailure returns why the last try to reach the origin failed, nil if none
// has.
func (l *Link) LastFailure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// accepted notes that the credentials are good.
func (l *Link) accepted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revoked = false
}

// Revoked reports whether an operator has revoked the node, and not enrolled it again. An
// origin that does not know the node, since its own data were lost, has revoked nothing.
func (l *Link) Revoked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revoked
}

// Unusable receives the first Permanent error.
func (l *Link) Unusable() <-chan error { return l.unusable }

// Up reports whether there is a connection.
func (l *Link) Up() bool { return l.conn.IsConnected() }

// Ask sends req and waits for reply until ctx ends. The error wraps
// host.ErrNotFound or host.ErrLimit if the origin answers so, ErrInvalid if the
// origin cannot make sense of req, or req is too large, ErrRefused if the key that it
// names does not grant it, and host.ErrUnavailable if there is no answer now.
func (l *Link) Ask(ctx context.Context, verb string, req, reply wire.Message) error {
	began := time.Now()
	ctx, span := l.cfg.Tracer.Begin(ctx, "origin "+verb)
	defer span.End()
	outcome, err := "ok", l.exchange(ctx, verb, req, reply)
	switch {
	case err == nil:
	case errors.Is(err, host.ErrNotFound):
		outcome = "not_found"
	case errors.Is(err, host.ErrLimit):
		outcome = "limit"
	case errors.Is(err, ErrInvalid):
		outcome = "invalid"
	case errors.Is(err, ErrRefused):
		outcome = "refused"
	default:
		outcome = "unavailable"
		span.Fail(outcome)
	}
	l.cfg.Observe(verb, outcome, time.Since(began))
	span.Set("edge.outcome", outcome)
	if err != nil {
		return fmt.Errorf("ask origin for %s: %w", verb, err)
	}
	return nil
}

// exchange returns errors of the five kinds that Ask names.
func (l *Link) exchange(ctx context.Context, verb string, req, reply wire.Message) error {
	if !l.Up() {
		return fmt.Errorf("%w: not connected", host.ErrUnavailable)
	}
	req.Header().Trace = tracing.Traceparent(ctx)
	body, err := encode(verb, req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if room := l.rooms[verb]; room != nil {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		case <-ctx.Done():
			return fmt.Errorf("%w: too many requests: %w", host.ErrUnavailable, ctx.Err())
		}
	}
	msg, err := l.conn.RequestWithContext(ctx, wire.Subject(l.address, verb), body)
	if err == nil {
		err = l.decode(verb, msg.Data, reply)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", host.ErrUnavailable, err)
	}
	switch failure := reply.Header().Failure; failure {
	case "":
		return nil
	case wire.NotFound:
		return host.ErrNotFound
	case wire.Limit:
		return host.ErrLimit
	case wire.Invalid:
		return ErrInvalid
	case wire.Refused:
		return ErrRefused
	case wire.NotEnrolled:
		l.failed(ErrNotEnrolled)
		return fmt.Errorf("%w: %w", host.ErrUnavailable, ErrNotEnrolled)
	case wire.Internal:
		return fmt.Errorf("%w: %w", host.ErrUnavailable, ErrInternal)
	default:
		return fmt.Errorf("%w: origin says %s", host.ErrUnavailable, failure)
	}
}

// encode returns the text of a message that the origin does not refuse for its size.
func encode(verb string, m wire.Message) ([]byte, error) {
	body, err := wire.Encode(m)
	if size, most := len(body), wire.MaxBytes(verb); err == nil && size > most {
		err = fmt.Errorf("%T has %d bytes, more than %d", m, size, most)
	}
	return body, err
}

// decode parses what the origin sent under verb into m, and logs why it cannot.
func (l *Link) decode(verb string, data []byte, m wire.Message) error {
	err := wire.Decode(data, m)
	if _, apart := errors.AsType[wire.VersionError](err); apart {
		err = fmt.Errorf("%w: %w", ErrVersion, err)
		l.failed(err)
	} else if err != nil {
		l.warnings.Warn(verb, "a message of the origin cannot be read", "verb", verb, "err", err)
	}
	return err
}

// Decode parses what the origin sent unasked under verb into m. It returns false,
// and has logged why, if the message is to be ignored.
func (l *Link) Decode(verb string, data []byte, m wire.Message) bool {
	return l.decode(verb, data, m) == nil
}

// Send sends a message that gets no answer.
func (l *Link) Send(verb string, m wire.Message) error {
	body, err := encode(verb, m)
	if err == nil {
		err = l.conn.Publish(wire.Subject(l.address, verb), body)
	}
	if err != nil {
		return fmt.Errorf("send %s to origin: %w", verb, err)
	}
	return nil
}

// Reply replies to a request of the origin's with what answer returns. A request that
// asks for the reply elsewhere than below this node's own subject is not answered.
func (l *Link) Reply(verb string, request *nats.Msg, answer func() wire.Message) error {
	if !strings.HasPrefix(request.Reply, wire.Subject(l.address, verb)+".") {
		return fmt.Errorf("reply to origin's %s: it names another subject than the node's", verb)
	}
	body, err := encode(verb, answer())
	if err == nil {
		err = request.Respond(body)
	}
	if err != nil {
		return fmt.Errorf("reply to origin's %s: %w", verb, err)
	}
	return nil
}

// SubscribeChanges calls take, which is not to wait, with what the origin sends to every
// node, one message after the other.
func (l *Link) SubscribeChanges(take func(*nats.Msg)) error {
	if _, err := l.conn.Subscribe(wire.Changes, take); err != nil {
		return fmt.Errorf("subscribe to %s: %w", wire.Changes, err)
	}
	return nil
}

// Subscribe delivers to ch what the origin sends to this node under verb.
// Messages that find ch full are dropped.
func (l *Link) Subscribe(verb string, ch chan *nats.Msg) error {
	subject := wire.ToNode + l.address + "." + verb
	if _, err := l.conn.ChanSubscribe(subject, ch); err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return nil
}
