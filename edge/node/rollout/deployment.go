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
	earlier         wire.ReleaseCounts // of the modules before the deployment was made
	users           atomic.Int64       // 0: closed, or about to be
	closed          chan struct{}
}

// newDeployment returns a deployment with one user, which uses the modules in
// the caller's place.
func newDeployment(digest, version string, m *modules, front httpfront.Config) *deployment {
	d := &deployment{digest: digest, version: version, modules: m, earlier: m.counts(), closed: make(chan struct{})}
	d.users.Store(1)
	answered := front.Answered
	front.Modules, front.Routes = m.front, m.routes
	front.Answered = func(ctx context.Context, o *httpfront.Outcome) {
		d.traffic.Add(o.Status, o.Took)
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
	c := d.modules.counts().Minus(d.earlier)
	c.Traffic = d.traffic.Sum()
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

// counts returns the failed calls that speak against the modules, and the errors that do
// not.
func (m *modules) counts() (c wire.ReleaseCounts) {
	for _, module := range m.opened {
		stats := module.Stats()
		c.Outside += stats.Hindered
		for reason, n := range stats.Failed {
			switch {
			case n == 0:
			case !moduleFault(reason):
				c.Outside += n
			default:
				if c.Failures == nil {
					c.Failures = map[string]uint64{}
				}
				c.Failures[string(reason)] += n
			}
		}
	}
	return c
}

// moduleFault reports whether a failed call speaks against the module, rather
// than of the node's load or of a client that went away.
func moduleFault(reason host.Reason) bool {
	switch reason {
	case host.Busy, host.Canceled, host.Closed, host.Failed, host.RequestSize:
		return false
	}
	return true
}
