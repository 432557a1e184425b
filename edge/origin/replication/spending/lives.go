package spending

import (
	"sync"
	"time"
)

const (
	// livesKept bounds the lives of one node that are merged. A node begins another one when
	// it loses the file of its counters, which may be at each start.
	livesKept = 8
	// lifeKept is how long a life counts after its last report: well over the seconds for
	// which it draws on its keys after that, and short enough for a node that keeps no files
	// and crashes all the time.
	lifeKept = time.Minute
)

// lives are the boots that each node has reported its counters with. Each boot draws on a
// key as a node of its own, so one node that makes them up would take the shares of all
// others, and their time. The zero lives is that of no node.
type lives struct {
	mu     sync.Mutex
	byNode map[string]map[string]time.Time // when each boot was reported last
}

// note notes a report. It returns false if the boot is one too many.
func (l *lives) note(node, boot string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	boots := l.byNode[node]
	if _, known := boots[boot]; !known && len(boots) >= livesKept {
		expireLives(boots, now)
		if len(boots) >= livesKept {
			return false
		}
	}
	if boots == nil {
		boots = make(map[string]time.Time)
		if l.byNode == nil {
			l.byNode = make(map[string]map[string]time.Time)
		}
		l.byNode[node] = boots
	}
	boots[boot] = now
	return true
}

// forget drops what is too old to count.
func (l *lives) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for node, boots := range l.byNode {
		if expireLives(boots, now); len(boots) == 0 {
			delete(l.byNode, node)
		}
	}
}

// expireLives drops boots that have not reported for long. A clock may have been put back.
func expireLives(boots map[string]time.Time, now time.Time) {
	for boot, at := range boots {
		if now.Sub(at).Abs() >= lifeKept {
			delete(boots, boot)
		}
	}
}
