package replication

import (
	"context"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
)

// maxOperators bounds the questions of operators that wait to be answered, of each kind.
// Others are dropped, and the operator is told that this node did not answer.
const maxOperators = 16

// operators answers what the origin asks on behalf of operators.
type operators struct {
	Config
	aboutLockouts chan *nats.Msg
	aboutRequests chan *nats.Msg
}

func newOperators(cfg Config) *operators {
	return &operators{
		Config:        cfg,
		aboutLockouts: make(chan *nats.Msg, maxOperators), aboutRequests: make(chan *nats.Msg, maxOperators),
	}
}

// subscribe routes operators' questions to run.
func (o *operators) subscribe() error {
	if err := o.Link.Subscribe(wire.VerbLockouts, o.aboutLockouts); err != nil {
		return err
	}
	return o.Link.Subscribe(wire.VerbRequests, o.aboutRequests)
}

// run answers the origin until ctx ends.
func (o *operators) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-o.aboutLockouts:
			var req wire.LockoutsRequest
			o.reply(wire.VerbLockouts, m, &req, func() wire.Message { return o.answerLockouts(req) })
		case m := <-o.aboutRequests:
			var req wire.RequestsRequest
			o.reply(wire.VerbRequests, m, &req, func() wire.Message { return o.Requests(req) })
		}
	}
}

func (o *operators) reply(verb string, m *nats.Msg, req wire.Message, answer func() wire.Message) {
	if !o.Link.Decode(verb, m.Data, req) {
		return
	}
	if err := o.Link.Reply(verb, m, answer); err != nil {
		o.Log.Warn("cannot answer the origin's operators", "verb", verb, "err", err)
	}
}

// answerLockouts lists lockouts, and ends them where that is asked for.
func (o *operators) answerLockouts(req wire.LockoutsRequest) *wire.LockoutsReply {
	reply := new(wire.LockoutsReply)
	list, all := o.Store.Lockouts.List(req.Network, wire.MaxLockouts)
	reply.All = all
	for _, one := range list {
		reply.Lockouts = append(reply.Lockouts, wire.Lockout{Address: one.Address, LeftMS: one.Left.Milliseconds()})
	}
	if !req.Clear {
		return reply
	}
	var err error
	if reply.Cleared, err = o.Store.Lockouts.Clear(req.Network); err != nil {
		o.Log.Error("lockouts were ended but may come back after a restart", "err", err)
		reply.Failure = wire.Internal
		return reply
	}
	o.Log.Info("an operator ended lockouts", "network", req.Network, "ended", reply.Cleared)
	return reply
}
