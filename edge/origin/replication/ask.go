package replication

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
)

// askTime bounds the wait for a node's answer to an operator.
const askTime = 10 * time.Second

// NodeAnswer is the answer of one node. Err is set when it did not answer.
type NodeAnswer[Reply any] struct {
	Node  store.Node
	Reply Reply
	Err   error
}

// Lockouts asks every enrolled node about its lockouts, all at once, and returns
// when each has answered or askTime has passed.
func (s *Server) Lockouts(ctx context.Context, req wire.LockoutsRequest) (all []NodeAnswer[wire.LockoutsReply]) {
	everyNode := func(store.Node) bool { return true }
	askAll(ctx, s, wire.VerbLockouts, req, everyNode, func(at NodeAnswer[wire.LockoutsReply]) {
		at.bound(len(at.Reply.Lockouts), wire.MaxLockouts)
		all = append(all, at)
	})
	return all
}

// AnsweredRequests asks the enrolled nodes of a region, of all if it is "", about requests
// that they answered, all at once. It calls each with each answer as it comes, one after
// the other, and returns when each node has answered or askTime has passed.
func (s *Server) AnsweredRequests(ctx context.Context, region string, req wire.RequestsRequest, each func(NodeAnswer[wire.RequestsReply])) {
	within := func(n store.Node) bool { return region == "" || n.Region == region }
	askAll(ctx, s, wire.VerbRequests, req, within, func(at NodeAnswer[wire.RequestsReply]) {
		at.bound(len(at.Reply.Requests), wire.MaxRequests)
		each(at)
	})
}

// bound drops a reply that lists more than a node may.
func (a *NodeAnswer[Reply]) bound(listed, most int) {
	if listed > most {
		a.Reply, a.Err = *new(Reply), fmt.Errorf("the node's answer lists %d, more than %d", listed, most)
	}
}

// askAll asks the enrolled nodes that are chosen the same, all at once, and calls each with
// one answer at a time. It returns when each node has answered or askTime has passed.
func askAll[Req, Reply any, PReq interface {
	*Req
	wire.Message
}, PReply interface {
	*Reply
	wire.Message
}](ctx context.Context, s *Server, verb string, req Req, chosen func(store.Node) bool, each func(NodeAnswer[Reply])) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex
	for _, at := range s.presence.Enrolled() {
		if !chosen(at.Node) {
			continue
		}
		asked.Go(func() {
			own, reply := req, *new(Reply)
			err := s.ask(ctx, at.Node.ID, verb, PReq(&own), PReply(&reply))
			mu.Lock()
			defer mu.Unlock()
			each(NodeAnswer[Reply]{at.Node, reply, err})
		})
	}
	asked.Wait()
}

// ask sends a request to a node and waits for its reply. The reply comes below the
// node's own subject, on which no other node can publish.
func (s *Server) ask(ctx context.Context, node, verb string, req, reply wire.Message) error {
	conn := s.requests.Conn
	body, err := wire.Encode(req)
	if err != nil {
		return err
	}
	address := s.presence.Address(node)
	inbox := wire.Subject(address, verb) + "." + nats.NewInbox()[len(nats.InboxPrefix):]
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone, and the subscription with it
	if err := conn.PublishRequest(wire.ToNode+address+"."+verb, inbox, body); err != nil {
		return err
	}
	m, err := sub.NextMsgWithContext(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", askTime)
	case errors.Is(err, nats.ErrNoResponders), err == nil && m.Header.Get("Status") == fmt.Sprint(http.StatusServiceUnavailable):
		return errors.New("not connected, or of a version that does not know the question")
	case err != nil:
		return err
	}
	if size, most := len(m.Data), wire.MaxBytes(verb); size > most {
		return fmt.Errorf("the node's answer has %d bytes, more than %d", size, most)
	}
	if err := s.requests.decode(ctx, m.Data, reply); err != nil {
		return err
	}
	if failure := reply.Header().Failure; failure != "" {
		return fmt.Errorf("the node says %.40s", failure)
	}
	return nil
}
