// Command peers serves the pipeline and the agents handler by a guest in one of the
// hosts that one would take in Go instead of ours, for make bench-http to measure. It is
// a module of its own, so that none of them is a dependency of the program.
//
//	peers -peer wazero -guests build/peers -ready FILE
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"partneredge/edge/gotuning"
	"partneredge/wasm/httpfront"
)

// Bounds of a request, as a node's modules have them by default.
const (
	wall     = 10 * time.Second
	maxPages = 64 << 20 >> 16 // of memory, 64 KiB each
)

// peers open a guest, by the name of the host, which is that of the guest's file too.
var peers = map[string]func(ctx context.Context, guest []byte) (http.Handler, error){
	"wazero": openWazero, "extism": openExtism, "httpwasm": openHTTPWasm,
}

func main() {
	name := flag.String("peer", "wazero", "the host: wazero, extism or httpwasm")
	guests := flag.String("guests", "build/peers", "the guests, NAME.wasm, in this directory")
	ready := flag.String("ready", "", "write the address here once it serves")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := serve(ctx, *name, *guests, *ready)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends, with a node's GOMAXPROCS and garbage collection.
func serve(ctx context.Context, name, guests, ready string) error {
	open, ok := peers[name]
	if !ok {
		return fmt.Errorf("no peer %q", name)
	}
	wasm, err := os.ReadFile(filepath.Join(guests, name+".wasm"))
	if err != nil {
		return err
	}
	defer gotuning.Start(ctx)()
	handler, err := open(ctx, wasm)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: httpfront.WithRequestID(time.Now, nil, handler), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	text, err := json.Marshal(map[string]string{"URL": "http://" + listener.Addr().String()})
	if err == nil {
		err = os.WriteFile(ready, text, 0o600)
	}
	if err == nil {
		<-ctx.Done()
	}
	err = errors.Join(err, server.Shutdown(context.WithoutCancel(ctx)))
	if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	return err
}

// front serves HTTP by a guest that answers frames of package abi, as a node's front
// does by a gate.
func front(guest httpfront.Caller) http.Handler {
	return httpfront.New(httpfront.Config{Modules: &httpfront.Modules{
		Gate: httpfront.Module{Caller: guest, Headers: []string{"authorization"}},
	}})
}
