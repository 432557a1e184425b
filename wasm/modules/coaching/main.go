// Coaching answers for coaching/insights, as a module.
package main

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/coaching"
)

func init() {
	guest.Handle(func(req *abi.Request, resp *abi.Response) {
		coaching.Handle(req, resp, guest.Host{})
	})
}

func main() {}
