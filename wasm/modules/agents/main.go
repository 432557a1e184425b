// Agents answers for agents/me, as a module.
package main

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/agents"
)

func init() {
	guest.Handle(func(req *abi.Request, resp *abi.Response) {
		agents.Handle(req, resp, guest.Host{})
	})
}

func main() {}
