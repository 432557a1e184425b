package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"partneredge/scripts/bench/fleet"
)

// guarantees say what each server keeps apart and bounds, beside each other.
var guarantees = map[string]string{
	"native":       "nothing between requests; no deadline for computing; no bound of memory",
	"native-tls":   "as native",
	"node":         "each request from the same image, gate and handler apart; 50 ms of computing and 10 s in all; 64 MiB a request and a ceiling over all",
	"node-tls":     "as node",
	"before":       "as node, of the build that is compared with",
	"before-tls":   "as node, of the build that is compared with",
	"workerd":      "requests share an isolate; no deadline or bound of memory of a request as it is configured here",
	"wazero-fresh": "a new instance for each request, gate and handler in one; 10 s in all, by WithCloseOnContextDone; 64 MiB a request, no ceiling over all",
	"extism":       "a new instance for each request, gate and handler in one; 10 s in all, by the manifest; 64 MiB a request, no ceiling over all",
	"httpwasm":     "an instance serves one request after another and keeps what they leave; no deadline; 4 GiB an instance",
}

// startPeer returns a function that starts another host with its guest, which speaks
// plain HTTP.
func (b *bench) startPeer(name string) func(context.Context, bool) (*server, error) {
	return func(ctx context.Context, _ bool) (*server, error) {
		program := filepath.Join(b.peers, "peers")
		if _, err := os.Stat(program); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotInstalled, err)
		}
		process := &fleet.Process{Ready: filepath.Join(b.Dir, name+".json")}
		var at struct{ URL string }
		if err := process.Start(ctx, &at, program, "-peer", name, "-guests", b.peers, "-ready", process.Ready); err != nil {
			return nil, err
		}
		s, err := serverOf(process, at.URL, false, keys{live: []string{workerKey}})
		if err == nil {
			s.brief = true
		}
		return s, err
	}
}
