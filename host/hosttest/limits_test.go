package hosttest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"partneredge/host"
	"partneredge/wasm/abi"
)

// buildHostile makes the host's hostile guest, compiled into the cache that it
// returns: by a program without the race detector, in which wazero compiles ten
// times as slowly.
func buildHostile(t *testing.T) (wasm []byte, cache string) {
	t.Helper()
	dir := t.TempDir()
	cache = filepath.Join(dir, "cache")
	manifest := []byte(`{"name":"hostile","warmup":[{"method":"GET","path":"/honest"}]}`)
	if err := os.WriteFile(filepath.Join(dir, "hostile.json"), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	guest := exec.Command("go", "build", "-buildmode=c-shared", "-gcflags=all=", "-pgo=../../wasm/modules.pgo", "-o", filepath.Join(dir, "hostile.wasm"), "../testdata/hostile")
	guest.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	compile := exec.Command("go", "run", "-ldflags=-X github.com/tetratelabs/wazero/internal/version.version=dev", "../../scripts/precompile", dir, cache)
	compile.Env = append(os.Environ(), "CGO_ENABLED=0") // as make has compiled it
	for _, cmd := range []*exec.Cmd{guest, compile} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	wasm, err := os.ReadFile(filepath.Join(dir, "hostile.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return wasm, cache
}

// honest is what the hostile guest answers when nothing is left of earlier requests.
const honest = `200 [] counter 0 secret "" kept 0 table 0 channel 0 fired 0 hook "" initial 0 goroutines 1 env [] dir false`

// Every limit under the engine: the call that goes beyond it ends for that reason,
// and the next is answered byte for byte as if nothing had happened.
func TestLimits(t *testing.T) {
	wasm, cache := buildHostile(t)
	ctx := context.Background()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			runtime, err := host.New(ctx, host.Config{Engine: e.new, CacheDir: cache})
			if err != nil {
				t.Fatal(err)
			}
			defer runtime.Close(ctx)
			for _, tt := range []struct {
				attack string
				limits host.Limits
				want   host.Reason
			}{
				{"/spin", host.Limits{}, host.CPUDeadline},
				{"/sleep", host.Limits{Wall: 5 * time.Second}, host.WallDeadline},
				{"/allocate", host.Limits{Memory: 16 << 20}, host.Memory},
				{"/big", host.Limits{}, host.ResponseSize},
				{"/flood-host", host.Limits{}, host.HostCalls},
				{"/flood-log", host.Limits{}, host.LogBytes},
				{"/flood-stderr", host.Limits{}, host.LogBytes},
			} {
				if tt.attack != "/spin" {
					tt.limits.CPU = 10 * time.Second // the machine may have other work
				}
				module, err := runtime.Open(ctx, wasm, host.Manifest{Name: "hostile",
					Warmup: []host.Warmup{{Method: "GET", Path: "/honest"}}}, host.Capabilities{}, tt.limits)
				if err != nil {
					t.Fatal(err)
				}
				var resp abi.Response
				if err := module.Call(ctx, &abi.Request{Method: "GET", Path: tt.attack}, &resp); host.ReasonOf(err) != tt.want {
					t.Errorf("%s: %v, want %s", tt.attack, err, tt.want)
				}
				if n := module.Stats().Failed[tt.want]; n != 1 {
					t.Errorf("%s: counted %d times", tt.attack, n)
				}
				for range 20 {
					began := time.Now()
					err = module.Call(ctx, &abi.Request{Method: "GET", Path: "/honest"}, &resp)
					if host.ReasonOf(err) != host.WallDeadline || time.Since(began) < tt.limits.Wall {
						break // else a busy machine took longer than the short limit
					}
				}
				if err != nil {
					t.Errorf("after %s: %v", tt.attack, err)
				}
				got := fmt.Sprintf("%d %q %s", resp.Status, resp.Headers, resp.Body)
				if got != honest {
					t.Errorf("after %s:\n%s\nwant\n%s", tt.attack, got, honest)
				}
				module.Close(ctx)
			}
		})
	}
}
