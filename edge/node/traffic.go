package node

import (
	"net/http"
	"sync/atomic"
	"time"

	"partneredge/edge/wire"
)

// traffic counts answers for the status that the node tells the origin.
type traffic struct {
	requests, errors, limited atomic.Uint64
	latency                   [wire.LatencyBuckets]atomic.Uint64
}

func (t *traffic) answered(status int, took time.Duration) {
	switch {
	case status >= http.StatusInternalServerError:
		t.errors.Add(1)
	case status == http.StatusTooManyRequests:
		t.limited.Add(1)
	}
	t.latency[wire.LatencyBucket(took)].Add(1)
	t.requests.Add(1)
}

func (t *traffic) sum() *wire.Traffic {
	s := &wire.Traffic{
		Requests: t.requests.Load(), Errors: t.errors.Load(), Limited: t.limited.Load(),
		Latency: make([]uint64, len(t.latency)),
	}
	for i := range t.latency {
		s.Latency[i] = t.latency[i].Load()
	}
	return s
}
