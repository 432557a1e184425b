package replication

import (
	"context"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
)

// maxOperators bounds the requests of operators that wait to be answered. Others are
// dropped, and the operator is told that this node did not answer.
const maxOperators = 16

// lockouts lists and ends lockouts for the origin's operators.
type lockouts struct {
	Config
	requests chan *nats.Msg
}

func newLockouts(cfg Config) *lockouts {
	return &lockouts{Config: cfg, requests: make(chan *nats.Msg, maxOperators)}
}

// run answers the origin until ctx ends.
func (l *lockouts) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-l.requests:
			var req wire.LockoutsRequest
			if !l.Link.Decode(wire.VerbLockouts, m.Data, &req) {
				continue
			}
			if err := l.Link.Reply(wire.VerbLockouts, m, func() wire.Message { return l.answer(req) }); err != nil {
				l.Log.Warn("cannot tell the origin of lockouts", "err", err)
			}
		}
	}
}

func (l *lockouts) answer(req wire.LockoutsRequest) *wire.LockoutsReply {
	reply := new(wire.LockoutsReply)
	list, all := l.Store.Lockouts.List(req.Network, wire.MaxLockouts)
	reply.All = all
	for _, one := range list {
		reply.Lockouts = append(reply.Lockouts, wire.Lockout{Address: one.Address, LeftMS: one.Left.Milliseconds()})
	}
	if !req.Clear {
		return reply
	}
	var err error
	if reply.Cleared, err = l.Store.Lockouts.Clear(req.Network); err != nil {
		l.Log.Error("lockouts were ended but may come back after a restart", "err", err)
		reply.Failure = wire.Internal
		return reply
	}
	l.Log.Info("an operator ended lockouts", "network", req.Network, "ended", reply.Cleared)
	return reply
}
