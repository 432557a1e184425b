package replication

import (
	"container/list"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

// heartbeat is the last status message of a node.
type heartbeat struct {
	node    string
	status  wire.Status
	at      time.Time
	written time.Time // the last at that was written down
}

// timedOut reports whether a node counts as away at now, as nothing else was heard.
func (b *heartbeat) timedOut(now time.Time) bool { return now.Sub(b.at) >= HeartbeatTimeout }

// heartbeats are the last status messages of all nodes. Followers are told of what
// changes, which costs the same however many nodes there are: those that are away come
// before the others in a list by time.
type heartbeats struct {
	nodes     map[string]*list.Element // of byTime
	byTime    list.List                // *heartbeat, the earliest first
	present   *list.Element            // the first that had not timed out; nil: all had
	followers map[*Follower]struct{}
}

func newHeartbeats() heartbeats {
	return heartbeats{nodes: make(map[string]*list.Element), followers: make(map[*Follower]struct{})}
}

// note marks a node's report as changed for every follower.
func (h *heartbeats) note(node string) {
	for f := range h.followers {
		f.changed[node] = struct{}{}
	}
}

// of returns the last heartbeat of a node, the zero value where there is none.
func (h *heartbeats) of(node string) (b heartbeat) {
	if e := h.nodes[node]; e != nil {
		b = *e.Value.(*heartbeat)
	}
	return b
}

// put takes in a heartbeat. The clock may have been put back since the last.
func (h *heartbeats) put(b heartbeat) {
	h.note(b.node)
	if e := h.nodes[b.node]; e != nil {
		if h.present == e {
			h.present = e.Next()
		}
		h.byTime.Remove(e)
	}
	before := h.byTime.Back()
	for before != nil && before.Value.(*heartbeat).at.After(b.at) {
		before = before.Prev()
	}
	if before == nil {
		h.nodes[b.node] = h.byTime.PushFront(&b)
	} else {
		h.nodes[b.node] = h.byTime.InsertAfter(&b, before)
	}
}

// settle notes as changed the nodes that have timed out by now, or no longer have as the
// clock was put back.
func (h *heartbeats) settle(now time.Time) {
	for h.present != nil && h.present.Value.(*heartbeat).timedOut(now) {
		h.note(h.present.Value.(*heartbeat).node)
		h.present = h.present.Next()
	}
	before := h.byTime.Back()
	if h.present != nil {
		before = h.present.Prev()
	}
	for ; before != nil && !before.Value.(*heartbeat).timedOut(now); before = before.Prev() {
		h.note(before.Value.(*heartbeat).node)
		h.present = before
	}
}

// compare notes the nodes whose records differ between two readings in more than when they
// were last seen, which is written down of all nodes all the time.
func (h *heartbeats) compare(before, after map[string]store.Node) {
	for id, n := range after {
		was, known := before[id]
		was.LastSeenAt = n.LastSeenAt
		if !known || was != n {
			h.note(id)
		}
	}
	for id := range before {
		if _, kept := after[id]; !kept {
			h.note(id)
		}
	}
}
