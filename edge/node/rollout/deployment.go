package rollout

import (
	"context"
	"net/http"
	"sync/atomic"

	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/route"
)

// deployment is a release that answers requests, and counts what it answered. It
// is closed once nobody uses it; its users are the requests under way and the
// router.
type deployment struct {
	digest, version string // "" for the modules of the node's own disk
	modules         *modules
	handler         http.Handler
	traffic         wire.TrafficCounter
	outside         atomic.Uint64     // errors with a cause outside the modules
	earlier         map[string]uint64 // calls that failed before the deployment was made
	users           atomic.Int64      // 0: closed, or about to be
	closed          chan struct{}
}

// newDeployment returns a deployment with one user, which uses the modules in
// the caller's place.
func newDeployment(digest, version string, m *modules, front httpfront.Config) *deployment {
	d := &deployment{digest: digest, version: version, modules: m, earlier: m.failures(), closed: make(chan struct{})}
	d.users.Store(1)
	answered := front.Answered
	front.Modules, front.Routes = m.front, m.routes
	front.Answered = func(ctx context.Context, o *httpfront.Outcome) {
		d.traffic.Add(o.Status, o.Took)
		if o.Outside {
			d.outside.Add(1)
		}
		answered(ctx, o)
	}
	d.handler = httpfront.New(front)
	return d
}

// enter adds a user, who calls leave. It returns false if the deployment is
// closed.
func (d *deployment) enter() bool {
	for {
		n := d.users.Load()
		if n == 0 {
			return false
		}
		if d.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends a use. The last one closes the deployment.
func (d *deployment) leave() {
	if d.users.Add(-1) > 0 {
		return
	}
	d.modules.close()
	close(d.closed)
}

// counts returns what the deployment has answered.
func (d *deployment) counts() wire.ReleaseCounts {
	c := wire.ReleaseCounts{Outside: d.outside.Load(), Traffic: d.traffic.Sum()}
	for reason, n := range d.modules.failures() {
		if n -= d.earlier[reason]; n > 0 {
			if c.Failures == nil {
				c.Failures = map[string]uint64{}
			}
			c.Failures[reason] = n
		}
	}
	return c
}

// modules are the opened modules of one release. They are closed once nobody
// uses them: neither a deployment nor the Controller for the next one.
type modules struct {
	front  *httpfront.Modules
	routes *route.Table // nil: not known
	opened []*host.Module
	docs   http.Handler // of the API's document
	users  atomic.Int64
}

func newModules() *modules {
	m := &modules{front: &httpfront.Modules{Handlers: map[string]httpfront.Module{}}}
	m.users.Store(1)
	return m
}

// add adds an opened module.
func (m *modules) add(module *host.Module) {
	m.opened = append(m.opened, module)
	manifest := module.Manifest()
	served := httpfront.Module{Caller: module, Headers: manifest.Headers}
	if manifest.Name == route.Gate {
		m.front.Gate = served
	} else {
		m.front.Handlers[manifest.Name] = served
	}
}

// retain adds a user, who calls close.
func (m *modules) retain() { m.users.Add(1) }

// close ends a use. The last one closes the modules.
func (m *modules) close() {
	if m.users.Add(-1) > 0 {
		return
	}
	for _, module := range m.opened {
		module.Close(context.Background()) // nobody calls it: it does not wait
	}
}

// setCapabilities replaces what the modules are granted.
func (m *modules) setCapabilities(caps host.Capabilities) {
	for _, module := range m.opened {
		module.SetCapabilities(caps)
	}
}

// failures counts the failed calls that speak against the modules, by reason.
func (m *modules) failures() map[string]uint64 {
	failed := map[string]uint64{}
	for _, module := range m.opened {
		for reason, n := range module.Stats().Failed {
			if n > 0 && !reason.Outside() {
				failed[string(reason)] += n
			}
		}
	}
	return failed
}
