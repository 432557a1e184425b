package webhook

import (
	"container/heap"
	"time"
)

// alarms is a heap of queues by when to look at each.
type alarms []*queue

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].alarmAt.Before(a[j].alarmAt) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i]; a[i].alarm = i; a[j].alarm = j }

// Push is for container/heap.
func (a *alarms) Push(q any) { q.(*queue).alarm = len(*a); *a = append(*a, q.(*queue)) }

// Pop is for container/heap.
func (a *alarms) Pop() any {
	old := *a
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	return q
}

// set has the queue looked at by at. first tells that nothing is before it.
func (a *alarms) set(q *queue, at time.Time) (first bool) {
	switch {
	case at.IsZero() || (!q.alarmAt.IsZero() && !at.Before(q.alarmAt)):
		return false
	case q.alarmAt.IsZero():
		q.alarmAt = at
		heap.Push(a, q)
	default:
		q.alarmAt = at
		heap.Fix(a, q.alarm)
	}
	return q.alarm == 0
}

// due takes out a queue whose time has come, nil when there is none.
func (a *alarms) due(now time.Time) *queue {
	if len(*a) == 0 || (*a)[0].alarmAt.After(now) {
		return nil
	}
	q := heap.Pop(a).(*queue)
	q.alarmAt = time.Time{}
	return q
}

func (a alarms) next() time.Time {
	if len(a) == 0 {
		return time.Time{}
	}
	return a[0].alarmAt
}
