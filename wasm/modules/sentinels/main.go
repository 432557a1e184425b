// Sentinels answers for sentinels/firings, as a module.
package main

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/sentinels"
)

func init() {
	guest.Handle(func(req *abi.Request, resp *abi.Response) {
		sentinels.Handle(req, resp, guest.Host{})
	})
}

func main() {}
