// Sandbox serves the whole partner API from one program that keeps its data in
// memory, so that a partner's tests can run against it offline. It links the
// same pipeline and handlers as the modules.
//
// Built for wasip1 it runs on every WASI runtime that has the socket functions
// of WasmEdge, such as `edge sandbox`, wasirun and WasmEdge itself.
//
//	sandbox [-listen 127.0.0.1:8080] [-control] [-docs FILE]
//
// It prints the address that it listens on and its keys, which are always the
// same. With -control the first line of output is JSON; after that the program
// reads commands from standard input and answers them on standard output, see
// package sandboxctl. -docs names a file of pages that it serves beside the API.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"partneredge/wasm/fake"
	"partneredge/wasm/httpfront"
	"partneredge/wasm/native"
	"partneredge/wasm/sandboxctl"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdin *os.File, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	f.SetOutput(stderr)
	address := f.String("listen", "127.0.0.1:8080", "`ADDR` (address:port) to listen on; port 0 is any free one")
	controlled := f.Bool("control", false, "read commands from standard input, and answer on standard output")
	docs := f.String("docs", "", "`FILE` of pages to serve beside the API (sandboxctl.Docs)")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	var pages sandboxctl.Docs
	if *docs != "" {
		var err error
		if pages, err = sandboxctl.ReadDocs(*docs); err != nil {
			return err
		}
	}
	clock := new(fake.Clock)
	backend, demo := fake.NewDemo(clock.Now)
	listener, err := listen(*address)
	if err != nil {
		return err
	}
	if err := greet(stdout, *controlled, sandboxctl.Hello{URL: "http://" + listener.Addr().String(), Account: demo.AccountID, Live: demo.Live, Test: demo.Test}); err != nil {
		return err
	}
	server := httpfront.NewLocalServer(handler(backend, clock, *controlled, pages))
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	if *controlled {
		go func() {
			commands, err := input(stdin)
			if err == nil {
				err = sandboxctl.Controller{Backend: backend, Clock: clock, Account: demo.AccountID}.Serve(commands, stdout)
			}
			failed <- err // nil at the end of the commands, which ends the program
		}()
	}
	err = <-failed
	return errors.Join(err, server.Close())
}

// handler returns the API. With -control generated values such as identifiers
// come from a fixed seed, so that the same commands and requests always get the
// same answers.
func handler(backend *fake.Backend, clock *fake.Clock, controlled bool, docs sandboxctl.Docs) http.Handler {
	c := httpfront.Config{
		Modules: native.Modules(backend),
		Now:     func() time.Time { return time.UnixMicro(clock.Now()) },
	}
	var ids func([]byte)
	if controlled {
		c.Random, ids = httpfront.Seed(1), httpfront.Seed(2)
	}
	return httpfront.WithRequestID(c.Now, ids, docs.Before(httpfront.New(c)))
}

// greet writes the first output.
func greet(w io.Writer, asJSON bool, h sandboxctl.Hello) error {
	if asJSON {
		return json.NewEncoder(w).Encode(h)
	}
	_, err := fmt.Fprintf(w, `The partner API, with data in memory that is gone when this ends.

  API       %s
  live key  %s
  test key  %s

Try this:

  curl -i %s/api/v2/public/agents/me -H 'Authorization: Bearer %s'

`, h.URL, h.Live, h.Test, h.URL, h.Live)
	return err
}
