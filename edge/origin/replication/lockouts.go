package replication

import (
	"context"

	"partneredge/edge/wire"
	"partneredge/store"
)

// NodeLockouts is the answer of one node about its lockouts. Err is set when it did
// not answer.
type NodeLockouts struct {
	Node store.Node
	wire.LockoutsReply
	Err error
}

// Lockouts asks every enrolled node about its lockouts, all at once, and returns
// when each has answered or two seconds have passed.
func (s *Server) Lockouts(ctx context.Context, req wire.LockoutsRequest) []NodeLockouts {
	var all []NodeLockouts
	each(ctx, s, wire.VerbLockouts, req, func(node store.Node, reply wire.LockoutsReply, err error) {
		all = append(all, NodeLockouts{node, reply, err})
	})
	return all
}
