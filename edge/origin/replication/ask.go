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
const askTime = 2 * time.Second

// each asks every enrolled node the same, all at once, and calls take with each answer,
// one after the other. It returns when each node has answered or askTime has passed.
func each[Req, Reply any, PReq interface {
	*Req
	wire.Message
}, PReply interface {
	*Reply
	wire.Message
}](ctx context.Context, s *Server, verb string, req Req, take func(store.Node, Reply, error)) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var asked sync.WaitGroup
	var mu sync.Mutex
	for _, at := range s.presence.Enrolled() {
		asked.Go(func() {
			own, reply := req, *new(Reply)
			err := s.ask(ctx, at.Node.ID, verb, PReq(&own), PReply(&reply))
			mu.Lock()
			defer mu.Unlock()
			take(at.Node, reply, err)
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
	inbox := wire.Subject(node, verb) + "." + nats.NewInbox()[len(nats.InboxPrefix):]
	sub, err := conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone, and the subscription with it
	if err := conn.PublishRequest(wire.ToNode+node+"."+verb, inbox, body); err != nil {
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
	if err := wire.Decode(m.Data, reply); err != nil {
		return err
	}
	if failure := reply.Header().Failure; failure != "" {
		return fmt.Errorf("the node says %s", failure)
	}
	return nil
}
