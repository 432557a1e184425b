// Extism is the guest as a plug-in of extism: its input is a request frame of package
// abi, its output a response frame.
package main

import (
	"github.com/extism/go-pdk"

	"partneredge/scripts/bench/http/peers/guest"
	"partneredge/wasm/abi"
)

var service = guest.New()

//go:wasmexport handle
func handle() int32 {
	var req abi.Request
	if err := req.Parse(pdk.Input()); err != nil {
		pdk.SetError(err)
		return 1
	}
	var resp abi.Response
	service.Handle(&req, &resp)
	pdk.Output(resp.Append(nil))
	return 0
}

func main() {}
