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
	Handle(req, &resp, host)
	if resp.Handler != Agents || host.failures != 0 {
		t.Errorf("%d %s", resp.Status, resp.Body)
	}
}

// TestNoPartIsEmpty refuses paths in which a part is empty.
func TestNoPartIsEmpty(t *testing.T) {
	for _, path := range []string{"/api/v2/public/webhooks//", "/api/v2/public/webhooks//whs_1", "/api/v2/public//leads", "//api/v2/public/leads"} {
		if to, found := find(path); found {
			t.Errorf("%s is found: %+v", path, to)
		}
	}
}
