package sandbox

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"partneredge/edge/hint"
	"partneredge/edge/hosts"
	"partneredge/wasm/sandboxctl"
)

// control is the HTTP face of a sandbox's commands, on a port of its own: whoever tests
// in any language sends what package sandboxctl describes. It asks for no key, so it
// listens on loopback unless it is told otherwise, and refuses browsers led here by
// another site.
type control struct {
	listener  net.Listener
	hello     sandboxctl.Hello
	commands  *sandboxctl.Client
	forwarder *forwarder // nil: events are only in the answers
}

// listenControl listens on addr, where no host means loopback.
func listenControl(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, hint.Add(fmt.Errorf("listening for control commands: %w", err), "--control takes an address such as 127.0.0.1:8081")
	}
	l, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port))
	if err != nil {
		return nil, hint.Add(fmt.Errorf("listening for control commands: %w", err), "choose another --control address; port 0 is any free one")
	}
	return l, nil
}

// exposed reports whether others than this machine reach the control.
func (c *control) exposed() bool {
	at, err := netip.ParseAddrPort(c.listener.Addr().String())
	return err == nil && !at.Addr().Unmap().IsLoopback()
}

func (c *control) url() string { return "http://" + c.listener.Addr().String() }

// serve answers commands until ctx ends.
func (c *control) serve(ctx context.Context) error {
	server := &http.Server{
		Handler:           hosts.Guard(http.NewCrossOriginProtection().Handler(c)),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
	}
	unhook := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer unhook()
	if err := server.Serve(c.listener); ctx.Err() == nil {
		return fmt.Errorf("serving control commands: %w", err)
	}
	return nil
}

// ServeHTTP executes the command in the body of POST /, by default on the first account, and answers GET / with the
// sandbox's address, account and keys.
func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/":
		refuseControl(w, http.StatusNotFound, "POST a command to /, or GET / for the address, the account and the keys")
	case r.Method == http.MethodGet:
		answerControl(w, http.StatusOK, c.hello)
	case r.Method == http.MethodPost:
		c.execute(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		refuseControl(w, http.StatusMethodNotAllowed, "POST a command to /, or GET / for the address, the account and the keys")
	}
}

func (c *control) execute(w http.ResponseWriter, r *http.Request) {
	command, err := sandboxctl.ReadCommand(http.MaxBytesReader(w, r.Body, sandboxctl.MaxLine/2)) // escaped it may take more
	if err != nil {
		refuseControl(w, http.StatusBadRequest, `not a command such as {"do":"advance","milliseconds":60000}: `+err.Error())
		return
	}
	command.Account = cmp.Or(command.Account, c.hello.Account)
	answer, err := c.commands.Do(command)
	if err != nil {
		refuseControl(w, http.StatusBadRequest, err.Error())
		return
	}
	if c.forwarder != nil {
		c.forwarder.deliver(command.Account, answer.Events)
	}
	answerControl(w, http.StatusOK, answer)
}

func refuseControl(w http.ResponseWriter, status int, why string) {
	answerControl(w, status, map[string]string{"error": why})
}

func answerControl(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only if the client is gone
}

// readHello reads the first line of a controlled program.
func readHello(out *bufio.Reader) (h sandboxctl.Hello, err error) {
	line, err := out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &h)
	}
	return h, err
}

// greet says what there is.
func (c *control) greet(w io.Writer) {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "  %-10s %s\n", name, value) }
	b.WriteString("The partner API, with data in memory that is gone when this ends.\n\n")
	line("API", c.hello.URL)
	line("reference", c.hello.URL+"/docs")
	line("control", c.url())
	if c.forwarder != nil {
		line("webhooks", "posted to "+c.forwarder.to)
	}
	line("account", c.hello.Account)
	line("live key", c.hello.Live)
	line("test key", c.hello.Test)
	fmt.Fprintf(&b, "\nTry this:\n\n  curl %s -d '{\"do\":\"contact\",\"client\":\"client-7\",\"channel\":\"phone\"}'\n\n", c.url())
	_, _ = io.WriteString(w, b.String())
}
