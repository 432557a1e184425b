package hooks

import (
	"iter"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Arrivals holds when deliveries came, by their event. Its zero value holds none.
type Arrivals struct {
	mu    sync.Mutex
	count int
	at    map[string][]time.Time
}

// Add adds a delivery that came at a time.
func (a *Arrivals) Add(q *http.Request, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at == nil {
		a.at = make(map[string][]time.Time)
	}
	event := q.Header.Get("X-Svc-Event-Id")
	a.at[event] = append(a.at[event], at)
	a.count++
}

// Count returns how many deliveries came.
func (a *Arrivals) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// Again returns how many deliveries came of events that had come before.
func (a *Arrivals) Again() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count - len(a.at)
}

// Missing counts the events of which no delivery came.
func (a *Arrivals) Missing(events iter.Seq[string]) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for event := range events {
		if len(a.at[event]) == 0 {
			n++
		}
	}
	return n
}

// Waits returns, sorted, how long after their events deliveries came.
func (a *Arrivals) Waits(written map[string]time.Time) (waits []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for event, at := range written {
		for _, came := range a.at[event] {
			waits = append(waits, max(0, came.Sub(at)))
		}
	}
	slices.Sort(waits)
	return waits
}
