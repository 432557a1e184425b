package origin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
)

// Bounds of the answering side.
const (
	requestTime     = 10 * time.Second // a request that takes longer is given up
	requestsAtOnce  = 64               // more wait their turn
	leadsPerRequest = 1000
)

// spoken is the head of what this origin sends.
var spoken = wire.Head{V: wire.Version}

// requests answers the nodes.
type requests struct {
	db    *central.DB
	guard Guard
	fleet *fleet
	desk  *desk
	log   *slog.Logger
	// seldom warns of what nodes do.
	seldom *logging.Limiter
	trace  *tracing.Tracer
	seen   func(verb string, failure wire.Failure, took time.Duration)

	conn    *nats.Conn
	ctx     context.Context // of all requests; ends when stop has waited long enough
	cancel  context.CancelFunc
	turns   chan struct{} // holds one for each request under way
	running sync.WaitGroup
	subs    []*nats.Subscription
}

// start listens. Of several origin processes one takes a request; what nodes
// tell without asking is for each of them.
func (r *requests) start() error {
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.turns = make(chan struct{}, requestsAtOnce)
	for verb, serve := range map[string]func(context.Context, *nats.Msg) (wire.Message, error){
		wire.VerbKey:        decoded(r, wire.VerbKey, r.key),
		wire.VerbView:       decoded(r, wire.VerbView, r.view),
		wire.VerbChanges:    decoded(r, wire.VerbChanges, r.changes),
		wire.VerbLeads:      decoded(r, wire.VerbLeads, r.leads),
		wire.VerbSubscribe:  decoded(r, wire.VerbSubscribe, r.subscribe),
		wire.VerbRevoke:     decoded(r, wire.VerbRevoke, r.revoke),
		wire.VerbBlob:       decoded(r, wire.VerbBlob, r.blob),
		wire.VerbSignatures: decoded(r, wire.VerbSignatures, r.signatures),
		wire.VerbSpend:      decoded(r, wire.VerbSpend, r.spend),
		wire.VerbStatus:     decoded(r, wire.VerbStatus, r.status),
	} {
		queue, turns := wire.Queue, r.turns
		handle := func(m *nats.Msg) {
			turns <- struct{}{}
			r.running.Go(func() {
				defer func() { <-turns }()
				r.serve(verb, m, serve)
			})
		}
		switch verb {
		case wire.VerbSpend:
			queue = "" // no group: every process
			// It seldom reads the database, so it does not wait for those that do.
			turns = make(chan struct{}, requestsAtOnce)
		case wire.VerbStatus:
			queue = ""
			handle = func(m *nats.Msg) { r.serve(verb, m, serve) } // it never does
		}
		sub, err := r.conn.QueueSubscribe(wire.AnyNode+verb, queue, handle)
		if err != nil {
			return fmt.Errorf("listening to the nodes: %w", err)
		}
		r.subs = append(r.subs, sub)
	}
	return r.conn.Flush()
}

// stop takes no more requests and waits for those under way; they are cut short
// when ctx ends.
func (r *requests) stop(ctx context.Context) {
	for _, sub := range r.subs {
		drained := make(chan struct{})
		sub.SetClosedHandler(func(string) { close(drained) })
		if err := sub.Drain(); err != nil {
			continue // the connection is gone, and the subscription with it
		}
		select {
		case <-drained:
		case <-ctx.Done():
		}
	}
	cut := context.AfterFunc(ctx, r.cancel)
	defer cut()
	r.running.Wait()
	r.cancel()
}

func (r *requests) serve(verb string, m *nats.Msg, serve func(context.Context, *nats.Msg) (wire.Message, error)) {
	ctx, cancel := context.WithTimeout(r.ctx, requestTime)
	defer cancel()
	began := time.Now()
	node := nodeOf(m.Subject)

	var reply wire.Message = &wire.Head{}
	var failure wire.Failure
	err := r.fleet.admit(ctx, node)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalid):
		failure = wire.NotEnrolled
	case err == nil:
		reply, err = serve(ctx, m)
		failure = failureOf(err)
	default:
		failure = failureOf(err)
	}
	r.seen(verb, failure, time.Since(began))
	switch failure {
	case wire.NotEnrolled:
		r.seldom.Warn("admit "+node, "a node that is not enrolled is told nothing", "verb", verb, "node", node, "err", err)
	case wire.Internal, wire.Unavailable:
		r.log.Error("a node's request failed", "verb", verb, "node", node, "err", err)
	case wire.Invalid:
		r.seldom.Warn(node, "a node's request makes no sense", "verb", verb, "node", node, "err", err)
	}
	// Only into the node's own inbox: another subject would let it speak in the
	// origin's name to another node.
	if !strings.HasPrefix(m.Reply, wire.Inbox(node)+".") {
		return
	}
	*reply.Header() = wire.Head{V: wire.Version, Failure: failure}
	body, err := encode(reply)
	if err == nil {
		err = m.Respond(body)
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		r.log.Error("answering a node", "verb", verb, "node", node, "err", err)
	}
}

// decoded reads a request of type Req, once its version is one that is
// understood, and passes it on with the node that the subject names.
func decoded[Req any, PReq interface {
	*Req
	wire.Message
}](r *requests, verb string, serve func(ctx context.Context, node string, req Req) (wire.Message, error)) func(context.Context, *nats.Msg) (wire.Message, error) {
	return func(ctx context.Context, m *nats.Msg) (wire.Message, error) {
		var req Req
		malformed := json.Unmarshal(m.Data, &req)
		head := PReq(&req).Header()
		switch {
		case head.V != 0 && !wire.Understood(head.V): // whose fields may have other types
			return &wire.Head{}, fmt.Errorf("%w: it speaks version %d, too far from this origin's %d", store.ErrInvalid, head.V, wire.Version)
		case malformed != nil:
			return &wire.Head{}, fmt.Errorf("%w: not a message: %s", store.ErrInvalid, jsonFault(malformed))
		case head.V == 0:
			return &wire.Head{}, fmt.Errorf("%w: not a message: it says no version", store.ErrInvalid)
		}
		node := nodeOf(m.Subject)
		ctx, span := r.trace.Join(ctx, head.Trace, "node's "+verb)
		defer span.End()
		span.Set("edge.node.id", node)
		reply, err := serve(ctx, node, req)
		if failure := failureOf(err); failure != "" {
			span.Set("edge.failure", string(failure))
			if failure == wire.Internal || failure == wire.Unavailable {
				span.Fail(string(failure))
			}
		}
		return reply, err
	}
}

// encode leaves <, > and & as they are, which would else be six bytes each.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// jsonFault says what is wrong with a body without any of its content.
func jsonFault(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return "wrong type of " + wrong.Field
	}
	return "malformed"
}

// nodeOf is the node that a subject names. NATS lets a node publish under its
// own id only, so this, unlike anything in the body, is proved.
func nodeOf(subject string) string {
	node, _, _ := strings.Cut(strings.TrimPrefix(subject, wire.Prefix), ".")
	return node
}

// failureOf maps an error to what a node is told of it.
func failureOf(err error) wire.Failure {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, store.ErrNotFound):
		return wire.NotFound
	case errors.Is(err, store.ErrLimit):
		return wire.Limit
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrConflict):
		return wire.Invalid
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return wire.Unavailable
	default:
		return wire.Internal
	}
}
