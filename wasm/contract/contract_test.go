package contract_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"partneredge/wasm/contract"
	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/native"
)

// serve answers by the handlers in plain Go.
func serve(backend *fake.Backend, now func() int64) http.Handler {
	return httpfront.New(httpfront.Config{
		Modules: native.Modules(backend),
		Now:     func() time.Time { return time.UnixMicro(now()) },
	})
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
