// Trap answers for agents/me as the module agents does, but that it traps on one
// request of twenty, though never while it is being tried.
package main

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/agents"
)

func init() {
	guest.Handle(func(req *abi.Request, resp *abi.Response) {
		known := req.Principal.AccountID
		if known != "acc_smoke" && known != "acc_warm" && req.Random[0] < 13 {
			panic("a bad module")
		}
		agents.Handle(req, resp, guest.Host{})
	})
}

func main() {}
