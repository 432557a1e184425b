package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"partneredge/host"
	"partneredge/wasm/abi"
)

// TestModuleCountersDoNotFall: when a release is closed, what its modules have counted stays in
// the counters for as long as another release has the same modules. Gauges are of open ones.
func TestModuleCountersDoNotFall(t *testing.T) {
	t.Parallel()
	c := config(t, newOrigin(t))
	r, err := host.New(t.Context(), host.Config{Engine: c.Engine, CacheDir: c.Cache, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	wasm := must(os.ReadFile(filepath.Join(c.Modules, "agents.wasm")))(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	// called opens the module, and has it answer one request and lose another's client.
	called := func() *host.Module {
		t.Helper()
		m, err := r.Open(t.Context(), wasm, host.Manifest{Name: "agents"}, host.Capabilities{}, host.Limits{CPU: c.ModuleCPU, Wall: c.callTimeout})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Call(t.Context(), &abi.Request{Method: "GET", Path: "/none"}, new(abi.Response)); err != nil {
			t.Error(err)
		}
		if err := m.Call(gone, &abi.Request{Method: "GET", Path: "/none"}, new(abi.Response)); host.ReasonOf(err) != host.Canceled {
			t.Errorf("a call whose client is gone: %v", err)
		}
		return m
	}
	metrics := newModuleMetrics(r)
	labels := `digest="` + digestOf(t, "agents") + `",module="agents"`
	expect := func(when string, calls, failed, sandboxes int) {
		t.Helper()
		want := ""
		if calls > 0 {
			want = "# HELP edge_module_calls_failed_total Calls not answered, by reason.\n# TYPE edge_module_calls_failed_total counter\n"
			for _, reason := range host.Reasons() {
				n := 0
				if reason == host.Canceled {
					n = failed
				}
				want += fmt.Sprintf("edge_module_calls_failed_total{%s,reason=%q} %d\n", labels, reason, n)
			}
			want += fmt.Sprintf("# HELP edge_module_calls_total Calls answered.\n# TYPE edge_module_calls_total counter\nedge_module_calls_total{%s} %d\n", labels, calls)
			want += fmt.Sprintf("# HELP edge_module_sandboxes Sandboxes, busy and idle.\n# TYPE edge_module_sandboxes gauge\nedge_module_sandboxes{%s} %d\n", labels, sandboxes)
		}
		err := testutil.CollectAndCompare(metrics, strings.NewReader(want), "edge_module_calls_failed_total", "edge_module_calls_total", "edge_module_sandboxes")
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	first := called()
	expect("one is open", 1, 1, 1)
	second := called()
	expect("two are open", 2, 2, 2)
	first.Close(t.Context())
	first.Close(t.Context())
	expect("the first is closed", 2, 2, 1)
	third := called()
	expect("a third is opened", 3, 3, 2)
	second.Close(t.Context())
	expect("the second is closed", 3, 3, 1)
	third.Close(t.Context())
	expect("all are closed", 0, 0, 0)
	called()
	expect("one is opened anew", 1, 1, 1)
}
