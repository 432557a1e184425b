package httpfront_test

import (
	"testing"
	"time"

	"partneredge/wasm/contract"
	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/native"
)

func TestNative(t *testing.T) {
	clock := fake.NewClock()
	backend := fake.New(clock.Now)
	front := httpfront.New(httpfront.Config{
		Modules: native.Modules(backend),
		Now:     func() time.Time { return time.UnixMicro(clock.Now()) },
	})
	seen := map[int]int{}
	target := contract.InMemory(t, backend, clock)
	target.Send = contract.Handler(front)
	target.Observe = func(_ testing.TB, x contract.Exchange) { seen[x.Response.StatusCode]++ }
	skipped := contract.Run(t, target)
	if len(skipped) != 0 {
		t.Errorf("left out: %q", skipped)
	}
	for _, status := range []int{200, 201, 400, 401, 403, 404, 405, 413, 429, 500} {
		if seen[status] == 0 {
			t.Errorf("no answer had status %d", status)
		}
	}
	t.Logf("%d cases", len(contract.Cases()))
}
