package rollout

import (
	"fmt"
	"time"

	"partneredge/edge/origin/replication"
	"partneredge/store"
)

// lostMost bounds the wait for a node that served the release and is gone, after
// which the release is rolled back, and the wait of a rollback for a node that is
// not heard. A node that is started again is back in less.
const lostMost = 2 * time.Minute

// lost reports whether a node served the release and no longer does. A node that
// was revoked has no report, and is not waited for.
func lost(r *store.Rollout, n store.RolloutNode, reports map[string]replication.Report) bool {
	if !n.Served {
		return false
	}
	at, enrolled := reports[n.ID]
	return enrolled && !ready(r, at)
}

func anyLost(r *store.Rollout, reports map[string]replication.Report) bool {
	for _, n := range r.Nodes {
		if lost(r, n, reports) {
			return true
		}
	}
	return false
}

// losses measures for how long nodes have been lost. Each origin measures from
// when it saw the loss first: one that has just started has heard nobody yet.
type losses struct {
	rollout string
	since   map[string]time.Time // by node
}

// judge returns the reason to roll the release back, "" for none: a node that has
// been lost for too long.
func (l *losses) judge(r *store.Rollout, reports map[string]replication.Report, now time.Time) string {
	if l.rollout != r.ID {
		l.rollout, l.since = r.ID, make(map[string]time.Time)
	}
	for _, n := range r.Nodes {
		if !lost(r, n, reports) {
			delete(l.since, n.ID)
			continue
		}
		since, known := l.since[n.ID]
		if !known {
			since = now
			l.since[n.ID] = now
		}
		if now.Sub(since) >= lostMost {
			state := "it is connected"
			if !reports[n.ID].Connected {
				state = "it is not connected"
			}
			return fmt.Sprintf("node %s: served the release and has not for %s; %s", n.ID, lostMost, state)
		}
	}
	return ""
}
