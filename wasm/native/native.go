// Package native is the partner API in plain Go, without modules: the pipeline
// and every handler over a world in fake. What modules answer is held against
// it, and it is what a self-contained program links.
package native

import (
	"context"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
	"partneredge/wasm/handlers/agents"
	"partneredge/wasm/handlers/coaching"
	"partneredge/wasm/handlers/leads"
	"partneredge/wasm/handlers/sentinels"
	"partneredge/wasm/handlers/webhooks"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/pipeline"
)

// Modules is the gate and the handlers over a world.
func Modules(w *fake.Backend) *httpfront.Modules {
	return &httpfront.Modules{
		Gate: httpfront.Module{
			Caller:  plain(func(req *abi.Request, resp *abi.Response) { pipeline.Handle(req, resp, w) }),
			Headers: []string{"authorization"},
		},
		Handlers: map[string]httpfront.Module{
			pipeline.Agents: {Caller: plain(func(req *abi.Request, resp *abi.Response) {
				agents.Handle(req, resp, w.For(req.Principal))
			})},
			pipeline.Coaching: {Caller: plain(func(req *abi.Request, resp *abi.Response) {
				coaching.Handle(req, resp, w.For(req.Principal))
			})},
			pipeline.Sentinels: {Caller: plain(func(req *abi.Request, resp *abi.Response) {
				sentinels.Handle(req, resp, w.For(req.Principal))
			})},
			pipeline.Webhooks: {Caller: plain(func(req *abi.Request, resp *abi.Response) {
				webhooks.Handle(req, resp, w.For(req.Principal))
			})},
			pipeline.Leads: {
				Caller: plain(func(req *abi.Request, resp *abi.Response) {
					leads.Handle(req, resp, w.For(req.Principal))
				}),
				Headers: []string{"idempotency-key"},
			},
		},
	}
}

// plain is a module that is not one.
type plain func(*abi.Request, *abi.Response)

func (f plain) Call(_ context.Context, req *abi.Request, resp *abi.Response) error {
	f(req, resp)
	return nil
}
