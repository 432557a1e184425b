// Gate is the request pipeline as a module.
package main

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
	"partneredge/wasm/pipeline"
)

func init() {
	guest.Handle(func(req *abi.Request, resp *abi.Response) {
		pipeline.Handle(req, resp, guest.Host{})
	})
}

func main() {}
