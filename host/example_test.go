package host_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"partneredge/host"
	"partneredge/wasm/abi"
)

// compile builds the guest in testdata/guest.
func compile() []byte {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-gcflags=all=", "-pgo=../wasm/modules.pgo", "-o", out, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		log.Fatalf("%v: %s", err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		log.Fatal(err)
	}
	return wasm
}

func Example() {
	ctx := context.Background()
	runtime, err := host.New(ctx, host.Config{CacheDir: host.CacheDir})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close(ctx)
	module, err := runtime.Open(ctx, compile(), host.Manifest{Name: "guest"}, host.Capabilities{}, host.Limits{})
	if err != nil {
		log.Fatal(err)
	}

	// The guest counts its requests. It never gets beyond the warm-up's two.
	request := abi.Request{Method: "GET", Path: "/served"}
	var response abi.Response
	for range 3 {
		if err := module.Call(ctx, &request, &response); err != nil {
			log.Fatal(err)
		}
		fmt.Println(response.Status, string(response.Body))
	}
	// Output:
	// 200 3
	// 200 3
	// 200 3
}

// profiles is a capability: it reads the account of who asks.
type profiles struct{ host.Views }

func (profiles) AppendProfile(_ context.Context, dst []byte, p abi.Principal) ([]byte, error) {
	profile := abi.Profile{FullName: "the agent of " + p.AccountID}
	return profile.Append(dst), nil
}

// A module reaches a capability only if its manifest names it.
func ExampleRuntime_Open() {
	ctx := context.Background()
	runtime, err := host.New(ctx, host.Config{CacheDir: host.CacheDir})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close(ctx)
	wasm := compile()
	request := abi.Request{Method: "GET", Path: "/profile", Principal: abi.Principal{AccountID: "acc_1", Scopes: abi.ReadAgent}}
	for _, granted := range [][]abi.Capability{{abi.Views}, nil} {
		module, err := runtime.Open(ctx, wasm, host.Manifest{Name: "guest", Capabilities: granted},
			host.Capabilities{Views: profiles{}}, host.Limits{})
		if err != nil {
			log.Fatal(err)
		}
		var response abi.Response
		if err := module.Call(ctx, &request, &response); err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(response.Body))
	}
	// Output:
	// the agent of acc_1
	// call host: not granted by the manifest, or the key lacks the scope
}

// A guest that takes too long is ended, and the next request is served.
func ExampleModule_Call() {
	ctx := context.Background()
	runtime, err := host.New(ctx, host.Config{CacheDir: host.CacheDir})
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close(ctx)
	module, err := runtime.Open(ctx, compile(), host.Manifest{Name: "guest"}, host.Capabilities{},
		host.Limits{Wall: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	// The caller's deadline counts where it comes before the limit.
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var response abi.Response
	err = module.Call(short, &abi.Request{Method: "GET", Path: "/sleep-on"}, &response)
	var failed *host.Error
	if errors.As(err, &failed) {
		fmt.Println(failed.Reason)
	}
	err = module.Call(ctx, &abi.Request{Method: "GET", Path: "/environment"}, &response)
	fmt.Println(response.Status, err)
	// Output:
	// wall_deadline
	// 200 <nil>
}
