package host_test

import (
	"context"
	"testing"

	"partneredge/host"
	"partneredge/wasm/abi"
)

// BenchmarkCall calls the module of agents/me.
func BenchmarkCall(b *testing.B) {
	r, _ := newRuntime(b, nil)
	m, err := r.Open(context.Background(), host.Build(b, "partneredge/wasm/modules/agents"),
		host.Manifest{Name: "agents", Capabilities: []abi.Capability{abi.Views}}, host.Capabilities{Views: views{}}, host.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	req := abi.Request{Method: "GET", Path: "/api/v2/public/agents/me", Client: "::1", Random: [32]byte{1}, Now: 1,
		Principal: abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvLive, Scopes: abi.ReadAgent}}
	var resp abi.Response
	for b.Loop() {
		if err := m.Call(context.Background(), &req, &resp); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	s := m.Stats()
	b.ReportMetric(float64(s.Restored)/float64(s.Calls)/4096, "pages/op")
	if resp.Status != 200 || s.Discarded != 0 {
		b.Fatalf("status %d, stats %+v: %s", resp.Status, s, resp.Body)
	}
}

// BenchmarkOpen opens a module from the cache, by itself and while an equal module is
// open, as in a release that changes others.
func BenchmarkOpen(b *testing.B) {
	wasm := host.Build(b, "partneredge/wasm/modules/webhooks")
	for _, beside := range []bool{false, true} {
		name := "alone"
		if beside {
			name = "besideItsEqual"
		}
		b.Run(name, func(b *testing.B) {
			r, _ := newRuntime(b, func(c *host.Config) { c.CacheDir = b.TempDir() })
			open := func() *host.Module {
				m, err := r.Open(context.Background(), wasm, host.Manifest{Name: "webhooks"}, host.Capabilities{}, host.Limits{})
				if err != nil {
					b.Fatal(err)
				}
				return m
			}
			first := open()
			if !beside {
				first.Close(context.Background())
			}
			for b.Loop() {
				open().Close(context.Background())
			}
		})
	}
}
