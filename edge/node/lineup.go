package node

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/wasm/httpfront"
)

// lineup is a release that serves, and what it has answered.
//
// It is closed once nobody uses it: those who do are the requests under way, and
// the slot that it is in.
type lineup struct {
	digest, version string // "" for the modules of the node's own disk
	*crew
	handler http.Handler
	traffic traffic
	earlier map[string]uint64 // calls that failed before the lineup was
	users   atomic.Int64      // 0: closed, or about to be
	closed  chan struct{}     // closed with it
}

// crew is the modules of one release, opened. They are closed once nobody holds
// them: the lineup that they serve in, or who keeps them for the next one.
type crew struct {
	set     *httpfront.Modules
	modules []*host.Module
	smoking *smokeWorld // what they are shown before they serve
	holders atomic.Int64
}

func newCrew() *crew {
	c := &crew{set: &httpfront.Modules{Handlers: map[string]httpfront.Module{}}, smoking: new(smokeWorld)}
	c.holders.Store(1)
	return c
}

func (c *crew) hold() { c.holders.Add(1) }

func (c *crew) release() {
	if c.holders.Add(-1) > 0 {
		return
	}
	for _, m := range c.modules {
		m.Close(context.Background()) // nobody calls it: it does not wait
	}
}

// failures are the failed calls that speak against the modules, by reason.
func (c *crew) failures() map[string]uint64 {
	failed := map[string]uint64{}
	for _, m := range c.modules {
		for reason, n := range m.Stats().Failed {
			if n > 0 && modulesDoing(reason) {
				failed[string(reason)] += n
			}
		}
	}
	return failed
}

// observer is told of an answer: its handler ("" when the gate answered), its
// status, and how long it took.
type observer func(handler string, status int, took time.Duration)

// newLineup makes a lineup that one slot uses. It takes over a hold of the crew.
func newLineup(digest, version string, c *crew) *lineup {
	l := &lineup{digest: digest, version: version, crew: c, earlier: c.failures(), closed: make(chan struct{})}
	l.users.Store(1)
	return l
}

// serves makes its handler. observe is told of every answer besides.
func (l *lineup) serves(c Config, observe observer) {
	l.handler = httpfront.New(httpfront.Config{
		Modules: l.set,
		Client:  clientOf(c.TrustedProxies),
		Now:     c.Now,
		Log:     c.Log,
		Observe: func(handler string, status int, took time.Duration) {
			l.traffic.answered(status, took)
			observe(handler, status, took)
		},

		Begin:    withAge,
		Around:   aroundModules(c.Tracer),
		Answered: tracedAnswer(c.Tracer),
	})
}

// enter has a request use the lineup, until it calls leave; false when it is
// closed.
func (l *lineup) enter() bool {
	for {
		n := l.users.Load()
		if n == 0 {
			return false
		}
		if l.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends a use; the last one closes the lineup.
func (l *lineup) leave() {
	if l.users.Add(-1) > 0 {
		return
	}
	l.release()
	close(l.closed)
}

// counts are what the lineup has answered.
func (l *lineup) counts() wire.ReleaseCounts {
	c := wire.ReleaseCounts{Traffic: *l.traffic.sum()}
	for reason, n := range l.failures() {
		if n -= l.earlier[reason]; n > 0 {
			if c.Failures == nil {
				c.Failures = map[string]uint64{}
			}
			c.Failures[reason] = n
		}
	}
	return c
}

// modulesDoing tells whether a failed call speaks against the module, rather
// than of the node's load or of a client that went away.
func modulesDoing(reason host.Reason) bool {
	switch reason {
	case host.Busy, host.Canceled, host.Closed, host.Failed, host.RequestSize:
		return false
	}
	return true
}
