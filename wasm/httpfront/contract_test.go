package httpfront_test

import (
	"net/http"
	"testing"
	"time"

	"partneredge/wasm/contract"
	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/native"
)

// inPlainGo serves the pipeline and the handlers over a world, without modules.
func inPlainGo(w *fake.Backend, now func() int64) http.Handler {
	set := native.Modules(w)
	return httpfront.New(httpfront.Config{
		Modules: set,
		Now:     func() time.Time { return time.UnixMicro(now()) },
	})
}

func TestNative(t *testing.T) {
	clock := contract.NewClock()
	w := fake.New(clock.Now)
	seen := map[int]int{}
	skipped := contract.Run(t, contract.Target{
		Send:    contract.Handler(inPlainGo(w, clock.Now)),
		Clients: true,
		Fixture: contract.InMemory(w, clock.Now),
		Advance: clock.Advance,
		Outage:  contract.OutageOf(w),
		Observe: func(_ testing.TB, x contract.Exchange) { seen[x.Response.StatusCode]++ },
	})
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
