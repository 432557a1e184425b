package hooks

import (
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Arrivals holds when deliveries first came, by their event and endpoint. One that comes
// again is no other delivery, and does not make up for one that never came. Its zero value
// holds none.
type Arrivals struct {
	mu    sync.Mutex
	count int
	again int
	first map[string]map[string]time.Time // by event, then by the endpoint's path
}

// Add adds a delivery that came at a time.
func (a *Arrivals) Add(q *http.Request, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	event, endpoint := q.Header.Get("X-Svc-Event-Id"), q.URL.Path
	if _, came := a.first[event][endpoint]; came {
		a.again++
		return
	}
	if a.first == nil {
		a.first = make(map[string]map[string]time.Time)
	}
	if a.first[event] == nil {
		a.first[event] = make(map[string]time.Time)
	}
	a.first[event][endpoint] = at
	a.count++
}

// Count returns how many deliveries came.
func (a *Arrivals) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// Again returns how often deliveries came that had come before.
func (a *Arrivals) Again() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.again
}

// Missing counts the events of which no delivery came.
func (a *Arrivals) Missing(events iter.Seq[string]) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for event := range events {
		if len(a.first[event]) == 0 {
			n++
		}
	}
	return n
}

// Waits returns, sorted, how long after their events deliveries first came.
func (a *Arrivals) Waits(written map[string]time.Time) (waits []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for event, at := range written {
		for _, came := range a.first[event] {
			waits = append(waits, max(0, came.Sub(at)))
		}
	}
	slices.Sort(waits)
	return waits
}
