package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/origin/replication/spending"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/grant"
)

// Bounds of answering.
const (
	requestTime     = 10 * time.Second // a request that takes longer is given up
	leadsTime       = 7 * time.Second  // the same of leads, which a node offers again after eight
	leadsPerRequest = 1000
	largeMessage    = 64 << 10 // bytes; larger ones take up to 30 times as many while they are decoded
	largeAtOnce     = 2        // decoded at once
	namesOfAccount  = 2        // names of targets that are looked up at once
	waitingForNames = 4        // for lookups of an account beside them; further ones are refused at once
)

// requests answers the nodes.
type requests struct {
	Config
	presence *Presence
	merge    *spending.Merger
	usage    *keyUsage
	limited  *logging.Limiter // of what nodes can bring about, or a database that is away
	slots    *slots           // of what partners bring about
	held     semaphores       // by node: subscriptions that are asked for, which hold no slot all the time
	large    chan struct{}    // holds one for each large message being decoded
	names    semaphores       // by account: lookups of names, which hold no slot

	ctx     context.Context // of all requests; ends when stop has waited long enough
	cancel  context.CancelFunc
	running sync.WaitGroup
	subs    []*nats.Subscription // to what each origin process takes
	queue   queue                // of what one of them takes
}

// handler answers one message of a node.
type handler func(context.Context, *nats.Msg) (wire.Message, error)

// start subscribes. Of several origin processes one takes a request; reports and
// statuses, which have no answer, are for each of them.
func (r *requests) start() error {
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.slots, r.names = newSlots(), semaphores{most: namesOfAccount, waiting: waitingForNames}
	r.held = semaphores{most: slotsOfNode + waitingOfNode, bytes: bytesOfNode, bytesInAll: bytesInAll}
	r.large = make(chan struct{}, largeAtOnce)
	changes := newSlots() // what keeps a node in step waits for nothing that partners bring about
	leads := newSlotsOf(slotsOfLeads, 1)
	refills := newSlotsOf(slotsOfRefill, slotsOfRefill)
	r.queue.handlers = make(map[string]nats.MsgHandler)
	for verb, handle := range map[string]handler{
		wire.VerbKey:        inSlot(r.slots, decoded(r, wire.VerbKey, r.key)),
		wire.VerbKeys:       inSlot(refills, decoded(r, wire.VerbKeys, r.keys)),
		wire.VerbView:       inSlot(r.slots, decoded(r, wire.VerbView, r.view)),
		wire.VerbChanges:    inSlot(changes, decoded(r, wire.VerbChanges, r.changes)),
		wire.VerbLeads:      inTime(leadsTime, inSlot(leads, decoded(r, wire.VerbLeads, r.leads))),
		wire.VerbSubscribe:  inSlot(&r.held, decoded(r, wire.VerbSubscribe, r.subscribe)),
		wire.VerbRevoke:     inSlot(r.slots, decoded(r, wire.VerbRevoke, r.revoke)),
		wire.VerbBlob:       inSlot(r.slots, decoded(r, wire.VerbBlob, r.blob)),
		wire.VerbSignatures: inSlot(r.slots, decoded(r, wire.VerbSignatures, r.signatures)),
	} {
		r.queue.handlers[verb] = r.apart(verb, handle)
	}
	if err := r.join(); err != nil {
		return err
	}
	// Reports seldom read the database, so they do not wait for what does.
	spend := inSlot(newSlots(), decoded(r, wire.VerbSpend, r.spend))
	if err := r.listen(&r.subs, wire.VerbSpend, "", r.apart(wire.VerbSpend, spend)); err != nil {
		return err
	}
	if err := r.listen(&r.subs, wire.VerbStatus, "", r.heartbeats()); err != nil {
		return err
	}
	if err := r.Conn.Flush(); err != nil {
		return err
	}
	r.startProbes()
	return nil
}

func (r *requests) listen(subs *[]*nats.Subscription, verb, queue string, handle nats.MsgHandler) error {
	for _, nodes := range []string{wire.AnyNode, wire.AnyRegion} {
		sub, err := r.Conn.QueueSubscribe(nodes+verb, queue, handle)
		if err != nil {
			return fmt.Errorf("listening to the nodes: %w", err)
		}
		*subs = append(*subs, sub)
	}
	return nil
}

// apart serves each message in a goroutine of its own, so that none holds up those
// of other nodes.
func (r *requests) apart(verb string, handle handler) nats.MsgHandler {
	return func(m *nats.Msg) {
		handle := bounded(verb, m, handle)
		r.running.Go(func() { r.serve(verb, m, handle) })
	}
}

// errTooLarge is the error of a message that is larger than those of its verb may be.
var errTooLarge = fmt.Errorf("%w: too large", store.ErrInvalid)

// bounded returns what handles a message: what refuses it if it is too large. Its bytes are
// dropped at once then, as any number of such messages may come before the first is answered.
func bounded(verb string, m *nats.Msg, handle handler) handler {
	size, most := len(m.Data), wire.MaxBytes(verb)
	if size <= most {
		return handle
	}
	m.Data = nil
	return func(context.Context, *nats.Msg) (wire.Message, error) {
		return &wire.Head{}, fmt.Errorf("%w: %d bytes, more than %d", errTooLarge, size, most)
	}
}

// heartbeats serves statuses one after another, so it never waits for the database. That of a
// node which is not known is left out: the next refresh knows a new node, and its next status
// comes soon. So that no node keeps those of others waiting, few bytes a second of each are
// decoded.
func (r *requests) heartbeats() nats.MsgHandler {
	status, pace := decoded(r, wire.VerbStatus, r.status), &pace{bytes: make(map[string]int)}
	paced := func(ctx context.Context, m *nats.Msg) (wire.Message, error) { // once the node is admitted
		if !pace.admits(nodeOf(m.Subject), len(m.Data), r.Now()) {
			return &wire.Head{}, fmt.Errorf("%w: statuses of more than %d bytes in a second", errTooLarge, statusBytes)
		}
		return status(ctx, m)
	}
	return func(m *nats.Msg) {
		if r.presence.knows(nodeOf(m.Subject)) {
			r.serve(wire.VerbStatus, m, bounded(wire.VerbStatus, m, paced))
		}
	}
}

// statusBytes bounds the statuses of a node that are decoded in a second. One has 2 KB, and
// a node sends one every two seconds, and at each change of its releases.
const statusBytes = 256 << 10

// pace counts the bytes of each node in a second.
type pace struct {
	mu     sync.Mutex
	second int64
	bytes  map[string]int // by node
}

// admits counts bytes of a node, and reports whether it has not sent too many.
func (p *pace) admits(node string, size int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if second := now.Unix(); second != p.second {
		p.second = second
		clear(p.bytes)
	}
	p.bytes[node] += size
	return p.bytes[node] <= statusBytes
}

// inTime gives a message less time than requestTime.
func inTime(most time.Duration, handle handler) handler {
	return func(ctx context.Context, m *nats.Msg) (wire.Message, error) {
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		return handle(ctx, m)
	}
}

// room bounds what is answered at once.
type room interface {
	run(ctx context.Context, node string, size int, fn func() error) error
}

// inSlot handles a message once there is a slot for its node.
func inSlot(s room, handle handler) handler {
	return func(ctx context.Context, m *nats.Msg) (reply wire.Message, err error) {
		reply = &wire.Head{}
		err = s.run(ctx, nodeOf(m.Subject), len(m.Data), func() error {
			var err error
			reply, err = handle(ctx, m)
			return err
		})
		return reply, err
	}
}

// stop takes no more requests and waits for those under way; they are cut short
// when ctx ends.
func (r *requests) stop(ctx context.Context) {
	r.queue.endProbes()
	r.queue.probes.Wait()
	r.drain(ctx)
	r.queue.subs, r.subs = nil, nil
	cut := context.AfterFunc(ctx, r.cancel)
	defer cut()
	r.running.Wait()
	r.cancel()
}

// drain ends all subscriptions at once, and waits, as long as ctx lasts, until the messages that
// have come are under way. Draining takes an answer of the server: while the connection is away,
// those messages are dropped, which could not be answered either.
func (r *requests) drain(ctx context.Context) {
	end := (*nats.Subscription).Drain
	if !r.Conn.IsConnected() {
		end = (*nats.Subscription).Unsubscribe
	}
	subs := append(r.queue.subs, r.subs...)
	closed := make(chan struct{}, len(subs))
	waiting := 0
	for _, sub := range subs {
		sub.SetClosedHandler(func(string) { closed <- struct{}{} })
		if end(sub) == nil { // else the connection has ended, and the subscription with it
			waiting++
		}
	}
	for range waiting {
		select {
		case <-closed:
		case <-ctx.Done():
			return
		}
	}
}

// serve handles a message of a node that may speak to the origin, and answers it.
func (r *requests) serve(verb string, m *nats.Msg, handle handler) {
	ctx, cancel := context.WithTimeout(r.ctx, requestTime)
	defer cancel()
	began := time.Now()
	address, node, region := wire.Sender(m.Subject)

	var reply wire.Message = &wire.Head{}
	var failure wire.Failure
	err := r.presence.admit(ctx, node, address, region)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalid):
		failure = wire.NotEnrolled
	case err == nil:
		reply, err = handle(ctx, m)
		failure = failureOf(err)
	default:
		failure = failureOf(err)
	}
	*reply.Header() = wire.Head{Failure: failure}
	var body []byte
	if m.Reply != "" {
		var unwritable error
		if body, unwritable = encodeReply(reply); unwritable != nil {
			failure, err = wire.Internal, unwritable
		}
	}
	r.Observe(verb, failure, time.Since(began))
	r.noteFailure(verb, node, failure, err)
	// Only into the node's own inbox: another subject would let it speak in the
	// origin's name to another node.
	if !strings.HasPrefix(m.Reply, wire.Inbox(address)+".") {
		if m.Reply != "" {
			known := countedAs(node, err)
			r.ObserveRefusal(known, RefusedReply, 1)
			r.limited.Warn("reply "+known, "a node asked for an answer to a subject that is not its own", "node", node, "verb", verb, "reply", m.Reply)
		}
		return
	}
	if err := m.Respond(body); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		r.Log.Error("cannot answer a node", "verb", verb, "node", node, "err", err)
	}
}

// unknownNode stands for all nodes that may not exist, of which the NATS server of a region
// can make up any number.
const unknownNode = "unknown"

// countedAs returns the name of a node in metrics and as the cause of warnings.
func countedAs(node string, err error) string {
	if errors.Is(err, errNotKnown) {
		return unknownNode
	}
	return node
}

// noteFailure logs why a request failed, at a limited rate where partners or nodes can
// bring it about, and counts refusals.
func (r *requests) noteFailure(verb, node string, failure wire.Failure, err error) {
	switch failure {
	case wire.NotEnrolled:
		known := countedAs(node, err)
		r.ObserveRefusal(known, RefusedNode, 1)
		r.limited.Warn("admit "+known, "a node that is not enrolled is told nothing", "verb", verb, "node", node, "err", err)
	case wire.Internal, wire.Unavailable:
		damaged, ofKey := errors.AsType[central.UnreadKeyError](err)
		switch {
		case ofKey:
			r.noteUnread(damaged)
		case errors.Is(err, errBusy):
			r.limited.Warn("busy "+countedAs(node, err), "a node's request found no room", "verb", verb, "node", node, "err", err)
		case errors.Is(err, errUnwritable):
			r.limited.Error("unwritable "+verb, "an answer to a node cannot be written", "verb", verb, "node", node, "err", err)
		default:
			r.limited.Error("failed "+verb+" "+string(failure), "a node's request failed", "verb", verb, "node", node, "err", err)
		}
	case wire.Refused:
		r.refuse(node, verb, err)
	case wire.Limit: // partners reach those of other requests
		if verb == wire.VerbSpend {
			r.limited.Warn("room "+node, "a node's report found no room", "node", node, "err", err)
		}
	case wire.Invalid:
		if errors.Is(err, errTooLarge) {
			r.ObserveRefusal(node, RefusedSize, 1)
		}
		r.limited.Warn(node, "a node's request makes no sense", "verb", verb, "node", node, "err", err)
	}
}

var errUnwritable = errors.New("unwritable answer")

// encodeReply returns what a node is sent. If the reply cannot be written or sent, because a
// record in the database is damaged say, the error is errUnwritable and body holds the
// failure Internal: without an answer the node would wait for as long as it may.
func encodeReply(reply wire.Message) (body []byte, err error) {
	if body, err = wire.Encode(reply); err == nil && len(body) > wire.MaxPayload {
		err = fmt.Errorf("%T has %d bytes, more than a message holds", reply, len(body))
	}
	if err == nil {
		return body, nil
	}
	body, _ = wire.Encode(&wire.Head{Failure: wire.Internal}) // which can always be written
	return body, fmt.Errorf("%w: %w", errUnwritable, err)
}

// refuse notes that a node asked for what no key grants it.
func (r *requests) refuse(node, verb string, err error) {
	reason, _ := grant.ReasonOf(err)
	r.ObserveRefusal(node, string(reason), 1)
	r.limited.Warn("refused "+node+" "+string(reason), "a node was refused what its partner's key does not grant",
		"verb", verb, "node", node, "err", err)
}

// decoded decodes a request of type Req and passes it on with the node that the
// subject names.
func decoded[Req any, PReq interface {
	*Req
	wire.Message
}](r *requests, verb string, handle func(ctx context.Context, node string, req Req) (wire.Message, error)) handler {
	return func(ctx context.Context, m *nats.Msg) (wire.Message, error) {
		var req Req
		if err := r.decodeIn(ctx, verb, m, PReq(&req)); err != nil {
			return &wire.Head{}, err
		}
		node := nodeOf(m.Subject)
		if verb != wire.VerbStatus { // which must not wait for the database
			r.presence.spoke(ctx, node, PReq(&req).Header().V)
		}
		ctx, span := r.Tracer.Join(ctx, PReq(&req).Header().Trace, "node's "+verb)
		defer span.End()
		span.Set("edge.node.id", node)
		reply, err := handle(ctx, node, req)
		if failure := failureOf(err); failure != "" {
			span.Set("edge.failure", string(failure))
			if failure == wire.Internal || failure == wire.Unavailable {
				span.Fail(string(failure))
			}
		}
		return reply, err
	}
}

// decodeIn decodes a request. One for a subscription holds a slot for that time alone.
func (r *requests) decodeIn(ctx context.Context, verb string, m *nats.Msg, into wire.Message) error {
	decode := func() error { return r.decode(ctx, m.Data, into) }
	var err error
	if verb == wire.VerbSubscribe {
		err = r.slots.run(ctx, nodeOf(m.Subject), 0, decode)
	} else {
		err = decode()
	}
	if v, ok := errors.AsType[wire.VersionError](err); ok {
		return fmt.Errorf("%w: it speaks version %d, too far from this origin's %d", store.ErrInvalid, int(v), wire.Version)
	}
	if errors.Is(err, wire.ErrMalformed) {
		return fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	return err
}

// decode decodes what a node sent. Large messages wait for one another: those of many nodes
// would take more memory than there is.
func (r *requests) decode(ctx context.Context, data []byte, into wire.Message) error {
	if len(data) > largeMessage {
		select {
		case r.large <- struct{}{}:
			defer func() { <-r.large }()
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errBusy, ctx.Err())
		}
	}
	return wire.Decode(data, into)
}

// nodeOf returns the node that a subject names. NATS lets a node publish under its
// own address only, so this, unlike anything in the body, is proved.
func nodeOf(subject string) string {
	_, node, _ := wire.Sender(subject)
	return node
}

// failureOf maps an error to what a node is told of it.
func failureOf(err error) wire.Failure {
	_, refused := grant.ReasonOf(err)
	switch {
	case err == nil:
		return ""
	case refused:
		return wire.Refused
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
