// Package guest is the pipeline and the agents handler in one guest, for hosts other
// than ours. What they ask their host for, it answers itself: there is one key, its
// bucket is always full, and nobody is locked out. So a peer spends nothing on
// records, where a node reads and writes its store.
package guest

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/handlers/agents"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

// Key is the key that the guest knows: apikey.Mint of zeros, the bench's workerKey.
const Key = "svc_live_0000000000000000000000000000000tOftK"

// Guest answers requests. New makes the route table, which an instance needs once.
type Guest struct{ gate pipeline.Pipeline }

// New returns a Guest.
func New() *Guest { return &Guest{pipeline.Pipeline{Routes: route.ContractTable()}} }

// Handle answers a request by the pipeline, and by the handler if that lets it pass.
func (g *Guest) Handle(req *abi.Request, resp *abi.Response) {
	g.gate.Handle(req, resp, world{})
	if resp.Handler != "agents" {
		return
	}
	agents.Handle(req, resp, world{})
	resp.Handler, resp.Principal, resp.Params = "", abi.Principal{}, nil
}

// world answers what pipeline and handler ask for.
type world struct{}

const limit = 100_000 // requests a minute

// Lockout implements pipeline.Host.
func (world) Lockout(string) (int64, error) { return 0, nil }

// Failure implements pipeline.Host.
func (world) Failure(string) (int64, error) { return 0, nil }

// Key implements pipeline.Host.
func (world) Key(token string) (abi.Key, error) {
	if token != Key {
		return abi.Key{}, abi.CodeNotFound
	}
	return abi.Key{ID: "key_bench", AccountID: "acc_bench", Environment: abi.EnvLive, Scopes: ^abi.Scopes(0), RateLimit: limit}, nil
}

// Take implements pipeline.Host.
func (world) Take(string, int) (abi.Bucket, error) {
	return abi.Bucket{Allowed: true, Limit: limit, Remaining: limit - 1, ResetMS: 1}, nil
}

// Profile implements handlers.Views.
func (world) Profile() (abi.Profile, error) {
	return abi.Profile{
		AgentID: "agt_01h455vb4pex5vsknk084sn02q", Email: "dana@example.com", FullName: "Dana Reyes", Joined: 1_700_000_000_000_000,
		AccountID: "acc_01h455vb4pex5vsknk084sn02q", AccountName: "Reyes Realty", Mode: "live",
	}, nil
}

// Insights implements handlers.Views.
func (world) Insights(int64, int, *abi.Insights) error { return abi.CodeDenied }

// Firings implements handlers.Views.
func (world) Firings(int64, int, *abi.Firings) error { return abi.CodeDenied }
