package hosttest_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"partneredge/host/engine"
	"partneredge/host/hosttest"
	"partneredge/wasm/contract"
	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/native"
)

// named is an engine under test.
type named struct {
	name string
	new  engine.New
}

// transcript runs every case of the contract and returns each exchange as text.
func transcript(t *testing.T, handler func(backend *fake.Backend, now func() int64) http.Handler) (all []string) {
	clock := fake.NewClock()
	backend := fake.New(clock.Now)
	target := contract.InMemory(t, backend, clock)
	target.Send = contract.Handler(handler(backend, clock.Now))
	target.Observe = func(_ testing.TB, x contract.Exchange) { all = append(all, told(x)) }
	skipped := contract.Run(t, target)
	if len(skipped) != 0 {
		t.Errorf("left out: %q", skipped)
	}
	return all
}

// told is an exchange, the answer with every byte of it.
func told(x contract.Exchange) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s %s\n%d\n", x.Case, x.Request.Method, x.Request.URL.RequestURI(), x.Response.StatusCode)
	for _, name := range slices.Sorted(maps.Keys(x.Response.Header)) {
		fmt.Fprintf(&b, "%s: %q\n", name, x.Response.Header[name])
	}
	b.Write(x.ResponseBody)
	return b.String()
}

// plain is the API without modules, with the clock and the seed of hosttest.
func plain(backend *fake.Backend, now func() int64) http.Handler {
	return httpfront.New(httpfront.Config{
		Modules: native.Modules(backend),
		Now:     func() time.Time { return time.UnixMicro(now()) },
		Random:  httpfront.Seed(1),
	})
}

// Every case of the contract under the engine, each answer byte for byte what
// plain Go answers.
func TestContract(t *testing.T) {
	dir := build(t)
	var want []string
	t.Run("native", func(t *testing.T) { want = transcript(t, plain) })
	if cases := contract.Cases(); len(want) < len(cases) {
		t.Errorf("%d exchanges for %d cases", len(want), len(cases))
	}
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			got := transcript(t, func(backend *fake.Backend, now func() int64) http.Handler {
				return hosttest.Config{Engine: e.new}.Handler(t, dir, backend, now)
			})
			if len(got) != len(want) {
				t.Fatalf("%d exchanges, %d in plain Go", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("got\n%s\nin plain Go\n%s", got[i], want[i])
				}
			}
			t.Logf("%d exchanges, %d cases", len(got), len(contract.Cases()))
		})
	}
}
