package node

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"partneredge/edge/wire"
)

// slots are the releases that answer requests: the running one, and a candidate
// that answers some of them. A request is answered by one release from its first
// byte to its last, whatever happens to the slots meanwhile.
//
// One goroutine at a time changes them; requests read.
type slots struct {
	now atomic.Pointer[lanes]
}

// lanes are what the slots hold at one moment. They are never changed.
type lanes struct {
	running   *lineup
	candidate *lineup // nil: none
	percent   int     // of the requests that the candidate answers
	// Of the running release, when the candidate was put beside it: what it
	// answered before that is not of the same window.
	before wire.ReleaseCounts
}

func newSlots(running *lineup) *slots {
	s := new(slots)
	s.now.Store(&lanes{running: running})
	return s
}

// ServeHTTP implements http.Handler.
func (s *slots) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := s.take()
	defer one.leave()
	one.handler.ServeHTTP(w, r)
}

// take picks the release that answers a request; the request leaves it.
func (s *slots) take() *lineup {
	for {
		l := s.now.Load()
		one := l.running
		if l.percent > 0 && rand.IntN(100) < l.percent {
			one = l.candidate
		}
		if one.enter() {
			return one
		}
		// Closed since it was looked up: there are other lanes now.
	}
}

// try puts a candidate beside the running release, or changes its percentage.
// What was in its slot is closed after its last request.
func (s *slots) try(candidate *lineup, percent int) {
	old := s.now.Load()
	l := &lanes{running: old.running, candidate: candidate, percent: percent, before: old.before}
	if candidate != old.candidate {
		l.before = old.running.counts()
	}
	s.now.Store(l)
	if old.candidate != nil && old.candidate != candidate {
		old.candidate.leave()
	}
}

// withdraw has the running release answer everything again.
func (s *slots) withdraw() {
	old := s.now.Load()
	s.now.Store(&lanes{running: old.running})
	if old.candidate != nil {
		old.candidate.leave()
	}
}

// run makes one the running release; it may be the candidate, which otherwise is
// withdrawn.
func (s *slots) run(one *lineup) {
	old := s.now.Load()
	s.now.Store(&lanes{running: one})
	if old.candidate != nil && old.candidate != one {
		old.candidate.leave()
	}
	old.running.leave()
}
