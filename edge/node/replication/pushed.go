package replication

import (
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Bounds of the pushed messages that wait, as while the disk stalls. Others are dropped,
// and their changes asked for. A message has up to 5 000 changes, which are 160 kB in the
// short form and 360 kB in the long one: in the short form about as many changes wait as
// the origin keeps.
const (
	maxPushed      = 2048
	maxPushedBytes = 32 << 20
)

// pushed holds the messages of the origin that wait. NATS bounds those of a channel by
// their number alone.
type pushed struct {
	messages chan *nats.Msg
	bytes    *atomic.Int64 // of them all
}

func newPushed() pushed {
	return pushed{messages: make(chan *nats.Msg, maxPushed), bytes: new(atomic.Int64)}
}

// put returns false, and does not hold m, where too many messages wait.
func (p pushed) put(m *nats.Msg) bool {
	if p.bytes.Add(int64(m.Size())) <= maxPushedBytes {
		select {
		case p.messages <- m:
			return true
		default:
		}
	}
	p.taken(m)
	return false
}

// taken makes room for others once m was received.
func (p pushed) taken(m *nats.Msg) { p.bytes.Add(-int64(m.Size())) }
