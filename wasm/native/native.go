// Package native runs the partner API in plain Go, without modules: the pipeline
// and every handler on an in-memory backend. Tests compare the answers of modules
// to it, and the sandbox program links it.
package native

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
	"partneredge/wasm/handlers/agents"
	"partneredge/wasm/handlers/coaching"
	"partneredge/wasm/handlers/leads"
	"partneredge/wasm/handlers/sentinels"
	"partneredge/wasm/handlers/webhooks"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

// Modules returns the gate and the handlers on a backend.
func Modules(b *fake.Backend) *httpfront.Modules {
	passes := pipeline.Pipeline{Routes: route.ContractTable()}
	gate := httpfront.Func(func(req *abi.Request, resp *abi.Response) { passes.Handle(req, resp, b) })
	return &httpfront.Modules{
		Gate: httpfront.Module{Caller: gate, Headers: []string{"authorization"}},
		Handlers: map[string]httpfront.Module{
			"agents":    {Caller: handler(b, agents.Handle)},
			"coaching":  {Caller: handler(b, coaching.Handle)},
			"sentinels": {Caller: handler(b, sentinels.Handle)},
			"webhooks":  {Caller: handler(b, webhooks.Handle), Headers: []string{"idempotency-key"}},
			"leads":     {Caller: handler(b, leads.Handle), Headers: []string{"idempotency-key"}},
		},
	}
}

// handler calls handle with the principal's view of b. V is one of the
// interfaces of package handlers, all of which fake.View implements.
func handler[V any](b *fake.Backend, handle func(*abi.Request, *abi.Response, V)) httpfront.Func {
	return func(req *abi.Request, resp *abi.Response) {
		handle(req, resp, any(b.For(req.Principal)).(V))
	}
}
