package pipeline

import (
	"testing"

	"partneredge/wasm/abi"
)

// TestKeyWithoutExpiry uses a key for which no end is set: it does not expire.
func TestKeyWithoutExpiry(t *testing.T) {
	host := good()
	host.key.Expires = 0
	req := &abi.Request{Now: now, Method: "GET", Path: "/api/v2/public/agents/me", Client: "192.0.2.1",
		Headers: []abi.Header{{Name: "authorization", Value: "Bearer " + token(t)}}}
	var resp abi.Response
	contract.Handle(req, &resp, host)
	if resp.Handler != "agents" || host.failures != 0 {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
}
