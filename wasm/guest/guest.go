// Package guest connects a module to its host. A module is a main package that
// is built as a WASI reactor:
//
//	func init() { guest.Handle(handle) }
//
//	func handle(req *abi.Request, resp *abi.Response) { … }
//
//	func main() {} // never runs
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o module.wasm .
//
// The host takes an image of the module after a warm-up and gives each request a
// sandbox that starts from it, so no request sees what an earlier one left in
// memory. Calls never overlap. A handler must not keep any of its arguments: they
// lie in buffers that the next call reuses.
//
// A handler that panics ends the sandbox; the request is answered with 500.
//
// A module whose manifest has allow_dial connects with Dial of
// github.com/stealthrocket/net/wasip1, built with the tag getaddrinfo, so that
// the host resolves names. A connection ends with the request that opened it.
package guest

import "partneredge/wasm/abi"

// The boundary has to be package state: its functions are exported by name, and
// the address of the input buffer must never change. What requests write to it lies
// side by side, for the host resets a sandbox by the page.
var (
	handler func(*abi.Request, *abi.Response)

	state = struct {
		request abi.Request
		answer  abi.Response
		host    caller
		output  []byte
		sent    [8]abi.Header // memory of the headers of most requests
		got     [8]abi.Header // and of most answers
	}{
		host:   caller{invoke: invoke},
		output: arena[outputAt:outputAt:inputAt],
	}

	// arena holds all bytes of a request side by side, so most requests dirty two
	// pages here instead of one for each buffer. It is large enough for Go to align it
	// to a page.
	arena  = make([]byte, arenaSize)
	body   = arena[0:0:digitsAt]
	digits = arena[digitsAt:digitsAt:framesAt] // of numbers in headers
	frames = arena[framesAt:framesAt:outputAt] // sent to the host
	input  = arena[inputAt:][:abi.MaxRequest]  // results of calls follow the request
)

const (
	digitsAt  = framesAt - 160
	framesAt  = 3 << 10
	outputAt  = framesAt + 512
	inputAt   = 12 << 10
	arenaSize = inputAt + abi.MaxRequest + 64<<10
)

// Handle registers the handler of the module. It must be called once, in an init
// function of the main package.
func Handle(f func(*abi.Request, *abi.Response)) {
	if handler != nil {
		panic("guest: Handle called twice")
	}
	handler = f
	state.request.Headers = state.sent[:0]
	state.answer.Use(state.got[:0], digits)
}

// Serve registers a handler that asks its host for more. H is an interface that Host
// implements, such as one of package handlers.
func Serve[H any](handle func(*abi.Request, *abi.Response, H)) {
	host := any(Host{}).(H)
	Handle(func(req *abi.Request, resp *abi.Response) { handle(req, resp, host) })
}

// handle handles the request frame in the first n bytes of input and returns the
// response frame, which is valid until the next call. It returns nil if the
// request cannot be parsed, or nothing handles it.
func handle(n int32) []byte {
	if handler == nil {
		Log(8, "no handler: call guest.Handle in an init function of package main")
		return nil
	}
	if n < 0 || int(n) > len(input) {
		return nil
	}
	request, answer := &state.request, &state.answer
	if err := request.Parse(input[:n]); err != nil {
		return nil
	}
	state.host.reset(arena[inputAt+int(n):])
	answer.Reset()
	answer.Body = body
	handler(request, answer)
	state.output = answer.Append(state.output[:0])
	return state.output
}
