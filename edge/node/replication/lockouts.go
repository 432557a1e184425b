package replication

import "partneredge/edge/wire"

// lockouts lists and ends lockouts for the origin's operators.
type lockouts struct{ Config }

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
