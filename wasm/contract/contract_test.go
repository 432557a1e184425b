package contract_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/contract"
	"partneredge/wasm/fake"
	"partneredge/wasm/handlers/agents"
	"partneredge/wasm/handlers/coaching"
	"partneredge/wasm/handlers/leads"
	"partneredge/wasm/handlers/sentinels"
	"partneredge/wasm/handlers/webhooks"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

// native serves the partner API by the pipeline and the handlers over a backend,
// without modules and without httpfront.
type native struct {
	backend *fake.Backend
	now     func() int64
	gate    pipeline.Pipeline
}

func serve(backend *fake.Backend, now func() int64) native {
	return native{backend, now, pipeline.Pipeline{Routes: route.ContractTable()}}
}

func (n native) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := abi.Request{
		Now: n.now(), Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Client: netip.MustParseAddrPort(r.RemoteAddr).Addr().String(),
	}
	_, _ = rand.Read(req.Random[:])
	for _, value := range r.Header["Authorization"] {
		req.Headers = append(req.Headers, abi.Header{Name: "authorization", Value: value})
	}
	var gate, resp abi.Response
	n.gate.Handle(&req, &gate, n.backend)
	body, err := io.ReadAll(r.Body)
	req.Headers, req.Body, req.Params, req.Principal = nil, body, gate.Params, gate.Principal
	view := n.backend.For(req.Principal)
	for _, value := range r.Header["Idempotency-Key"] {
		req.Headers = append(req.Headers, abi.Header{Name: "idempotency-key", Value: value})
	}
	switch {
	case err != nil:
		answer.Internal(&resp)
	case gate.Handler == "":
		resp = gate
		gate.Headers = nil
	case len(body) > 64<<10:
		answer.Error(&resp, 413, "payload_too_large", "")
	case gate.Handler == "agents":
		agents.Handle(&req, &resp, view)
	case gate.Handler == "coaching":
		coaching.Handle(&req, &resp, view)
	case gate.Handler == "sentinels":
		sentinels.Handle(&req, &resp, view)
	case gate.Handler == "webhooks":
		webhooks.Handle(&req, &resp, view)
	case gate.Handler == "leads":
		leads.Handle(&req, &resp, view)
	}
	w.Header().Set("Content-Type", "application/json")
	for _, h := range slices.Concat(gate.Headers, resp.Headers) {
		w.Header().Add(h.Name, h.Value)
	}
	w.WriteHeader(resp.Status)
	_, _ = w.Write(resp.Body)
}

func TestNative(t *testing.T) {
	clock := fake.NewClock()
	backend := fake.New(clock.Now)
	seen := map[int]int{}
	target := contract.InMemory(t, backend, clock)
	target.Send = contract.Handler(serve(backend, clock.Now))
	target.Observe = func(_ testing.TB, x contract.Exchange) { seen[x.Response.StatusCode]++ }
	skipped := contract.Run(t, target)
	if len(skipped) != 0 {
		t.Errorf("skipped: %q", skipped)
	}
	for _, status := range []int{200, 201, 400, 401, 403, 404, 405, 413, 429, 500} {
		if seen[status] == 0 {
			t.Errorf("no answer had status %d", status)
		}
	}
}

// TestServer checks that a target over HTTP, which can neither move its clock nor
// be cut off, runs the other cases, and that those are reported as skipped.
func TestServer(t *testing.T) {
	clock := fake.NewClock()
	backend := fake.New(clock.Now)
	server := httptest.NewServer(serve(backend, clock.Now))
	defer server.Close()
	target := contract.InMemory(t, backend, clock)
	target.Send, target.Advance, target.Outage = contract.Server(server.URL, nil), nil, nil
	skipped := contract.Run(t, target)
	want := 0
	for _, c := range contract.Cases() {
		if c.Needs&(contract.Clock|contract.Outage) != 0 {
			want++
			if !slices.Contains(skipped, c.Name) {
				t.Errorf("%s is not reported as skipped", c.Name)
			}
		}
	}
	if want == 0 || len(skipped) != want {
		t.Errorf("%d skipped, want %d", len(skipped), want)
	}
}

func TestNamesDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, c := range contract.Cases() {
		if names[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}
		names[c.Name] = true
		if len(c.Steps) == 0 && c.Then == nil {
			t.Errorf("%s does nothing", c.Name)
		}
	}
}
