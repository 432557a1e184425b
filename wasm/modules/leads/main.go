// Leads answers for partner lead intake, as a module.
package main

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/leads"
)

func init() {
	guest.Handle(func(req *abi.Request, resp *abi.Response) {
		leads.Handle(req, resp, guest.Host{})
	})
}

func main() {}
