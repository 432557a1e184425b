package rollout

import (
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"partneredge/edge/wire"
)

// router sends each request to the running release or to a candidate. One release
// answers a request from its first byte to its last, whatever the router does
// meanwhile.
//
// Requests read routes; one goroutine at a time replaces them.
type router struct {
	routes atomic.Pointer[routes]
}

// routes are never changed.
type routes struct {
	running   *deployment
	candidate *deployment // nil: none
	percent   int         // of the requests that the candidate answers
	// before and tried count the answers of the running release and of the candidate
	// until it got this percentage, when the window began in which they are compared.
	before, tried wire.ReleaseCounts
}

func newRouter(running *deployment) *router {
	r := new(router)
	r.routes.Store(&routes{running: running})
	return r
}

// ServeHTTP implements http.Handler.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	d := r.pick()
	defer d.leave()
	d.handler.ServeHTTP(w, req)
}

// pick picks the deployment that answers a request, and enters it.
func (r *router) pick() *deployment {
	for {
		routes := r.routes.Load()
		d := routes.running
		if routes.percent > 0 && rand.IntN(100) < routes.percent {
			d = routes.candidate
		}
		if d.enter() {
			return d
		}
		// Closed since the routes were loaded: there are other routes by now.
	}
}

// try puts a candidate beside the running release, or changes its percentage. A
// candidate that was there before is left.
func (r *router) try(candidate *deployment, percent int) {
	old := r.routes.Load()
	next := &routes{running: old.running, candidate: candidate, percent: percent, before: old.running.counts(), tried: candidate.counts()}
	r.replace(next)
}

// withdraw makes the running release answer every request.
func (r *router) withdraw() { r.replace(&routes{running: r.routes.Load().running}) }

// run makes d, which may be the candidate, the running release, without a
// candidate.
func (r *router) run(d *deployment) { r.replace(&routes{running: d}) }

// replace leaves the deployments that are not in next.
func (r *router) replace(next *routes) {
	old := r.routes.Swap(next)
	for _, d := range []*deployment{old.candidate, old.running} {
		if d != nil && d != next.running && d != next.candidate {
			d.leave()
		}
	}
}
