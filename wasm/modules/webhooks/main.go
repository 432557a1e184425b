// Webhooks answers for webhook subscriptions, as a module.
package main

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/webhooks"
)

func init() {
	guest.Handle(func(req *abi.Request, resp *abi.Response) {
		webhooks.Handle(req, resp, guest.Host{})
	})
}

func main() {}
