package rollout

import (
	"fmt"
	"time"

	"partneredge/store"
)

// lostMost bounds the wait for a node that got or served the release and is gone, after
// which the release is rolled back, and the wait of a rollback for a node that is
// not heard. A node that is started again is back in less.
const lostMost = 2 * time.Minute

// losses measures for how long nodes have been lost. Each origin measures from
// when it saw the loss first: one that has just started has heard nobody yet.
type losses struct {
	rollout string
	since   map[int]time.Time // by place
}

// judge returns the reason to roll the release back, "" for none: a node that has
// been lost for too long, and whom no other origin process hears.
func (l *losses) judge(r *store.Rollout, at look) string {
	lost, reports, now := at.tally.lost, at.reports, at.now
	if l.rollout != r.ID {
		l.rollout, l.since = r.ID, make(map[int]time.Time)
	}
	for i := range l.since {
		if _, still := lost[i]; !still {
			delete(l.since, i)
		}
	}
	tooLong := make(map[int]struct{})
	for i := range lost {
		since, known := l.since[i]
		if !known {
			since = now
			l.since[i] = now
		}
		if now.Sub(since) >= lostMost && !at.hears(r.Nodes[i].ID) {
			tooLong[i] = struct{}{}
		}
	}
	i, any := first(tooLong)
	if !any {
		return ""
	}
	id, state := r.Nodes[i].ID, "it is connected"
	if !reports[id].Connected {
		state = "it is not connected"
	}
	if !r.Nodes[i].Served {
		return fmt.Sprintf("node %s: was told to open the release and has not been connected for %s", id, lostMost)
	}
	return fmt.Sprintf("node %s: served the release and has not for %s; %s", id, lostMost, state)
}
