package replication

import (
	"context"

	"partneredge/edge/wire"
	"partneredge/store"
)

// NodeRequests is the answer of one node about requests of its log. Err is set when it
// did not answer.
type NodeRequests struct {
	Node store.Node
	wire.RequestsReply
	Err error
}

// AnsweredRequests asks every enrolled node about requests that it answered, all at once,
// and returns when each has answered or two seconds have passed.
func (s *Server) AnsweredRequests(ctx context.Context, req wire.RequestsRequest) []NodeRequests {
	var all []NodeRequests
	each(ctx, s, wire.VerbRequests, req, func(node store.Node, reply wire.RequestsReply, err error) {
		all = append(all, NodeRequests{node, reply, err})
	})
	return all
}
