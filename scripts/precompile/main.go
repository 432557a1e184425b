// Precompile compiles the modules in a directory into a cache, so that what
// uses the cache starts fast. Tests use it: under the race detector compiling
// takes ten times as long.
//
//	go run ./scripts/precompile MODULES CACHE
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"partneredge/host"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "precompile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: precompile MODULES CACHE")
	}
	runtime, err := host.New(ctx, host.Config{CacheDir: args[1]})
	if err != nil {
		return err
	}
	manifests, err := filepath.Glob(filepath.Join(args[0], "*.json"))
	if err == nil && len(manifests) == 0 {
		err = fmt.Errorf("no manifests in %s", args[0])
	}
	for _, path := range manifests {
		if err = compile(ctx, runtime, path); err != nil {
			break
		}
	}
	return errors.Join(err, runtime.Close(ctx))
}

func compile(ctx context.Context, runtime *host.Runtime, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var manifest host.Manifest
	if err := json.Unmarshal(b, &manifest); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	wasm, err := os.ReadFile(strings.TrimSuffix(path, ".json") + ".wasm")
	if err != nil {
		return err
	}
	module, err := runtime.Open(ctx, wasm, manifest, host.Capabilities{}, host.Limits{})
	if err != nil {
		return err
	}
	runtime.Settle(ctx) // what it writes to the cache is not written by each test then
	module.Close(ctx)
	return nil
}
