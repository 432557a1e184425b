// Package guest is what a module's author calls. A module is a main package
// built as a WASI reactor:
//
//	func init() { guest.Handle(answerIt) }
//
//	func answerIt(req *abi.Request, resp *abi.Response) { … }
//
//	func main() {} // never runs
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o module.wasm .
//
// The host takes an image of the module after a warm-up and gives each request
// a sandbox that starts from it: what a request leaves behind, nobody sees.
// Calls never overlap. Nothing a handler is given may be kept: all of it lies
// in buffers that the next call uses again.
//
// A handler that panics ends the sandbox; the request gets a 500.
//
// A module whose manifest has an allow_dial connects with Dial of
// github.com/stealthrocket/net/wasip1, built with the tag getaddrinfo: then the
// host looks names up. A connection ends with the request that made it.
package guest

import "partneredge/wasm/abi"

// The boundary has to be package state: its functions are exported by name, and
// the host finds the input buffer at one address for good.
var (
	handler func(*abi.Request, *abi.Response)
	request abi.Request
	answer  abi.Response

	host = link{invoke: invoke}

	// desk is where the bytes of a request lie, side by side. What a call wrote
	// is laid back by the page, and so most requests write two pages of it, and
	// not one for each of what is there. It is so long that it starts a page.
	desk   = make([]byte, deskSize)
	body   = desk[0:0:framesAt]
	frames = desk[framesAt:framesAt:outputAt] // on their way to the host
	output = desk[outputAt:outputAt:inputAt]
	input  = desk[inputAt:][:abi.InputSize] // what is left of it is for results
)

const (
	framesAt = 3 << 10
	outputAt = framesAt + 512
	inputAt  = 12 << 10
	deskSize = inputAt + abi.InputSize + 64<<10
)

// Handle makes f what answers requests. It belongs in an init function of the
// module's main package, and is called once.
func Handle(f func(*abi.Request, *abi.Response)) {
	if handler != nil {
		panic("guest: Handle called twice")
	}
	handler = f
}

// handle answers the frame in the first n bytes of input, with a frame that is
// good until the next call; nil when the request could not be read.
func handle(n int32) []byte {
	if n < 0 || int(n) > len(input) || handler == nil {
		return nil
	}
	if err := request.Parse(input[:n]); err != nil {
		return nil
	}
	host.reset(desk[inputAt+int(n):])
	answer.Reset()
	answer.Body = body
	handler(&request, &answer)
	output = answer.Append(output[:0])
	return output
}
